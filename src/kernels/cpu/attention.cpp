#include "kernels/cpu/attention.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
namespace {

constexpr int64_t kBlock = 64;  // query rows at a time

struct Shape {
  int64_t batch, positions, heads, kv_heads, size;

  int64_t kv_head(int64_t head) const { return head / (heads / kv_heads); }
  int64_t q_row() const { return heads * size; }
  int64_t kv_row() const { return kv_heads * size; }
  int64_t q(int64_t b, int64_t h, int64_t s = 0) const { return ((b * positions + s) * heads + h) * size; }
  int64_t kv(int64_t b, int64_t j) const { return (b * positions * kv_heads + j) * size; }
  int64_t lse(int64_t b, int64_t h) const { return (b * heads + h) * positions; }
  // Heads that one thread should take at least.
  int64_t grain() const { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, positions * positions)); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(size)); }
};

Shape shape_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  Shape shape{q.size(0), q.size(1), q.size(2), k.size(2), q.size(3)};
  expects(k.sizes() == v.sizes() && k.size(0) == shape.batch && k.size(1) == shape.positions && k.size(3) == shape.size,
          "attention: q, k and v do not fit");
  expects(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "attention: key heads divide query heads");
  return shape;
}

// Query rows [begin, end) of one head; they see the keys [0, end).
struct Block {
  int64_t b, h, begin, end;
  int64_t rows() const { return end - begin; }
};

// scores[rows, end] of a block: the rows of q (or of do) against all keys (or values) they may see.
template <class T>
void against_keys(const Shape& shape, const Block& block, const T* q, const T* k, T* scores) {
  gemm<T>({.a = q + shape.q(block.b, block.h, block.begin),
           .lda = shape.q_row(),
           .b = k + shape.kv(block.b, shape.kv_head(block.h)),
           .ldb = shape.kv_row(),
           .c = scores,
           .ldc = block.end,
           .m = block.rows(),
           .n = block.end,
           .k = shape.size},
          Layout::nt, Into::overwrite);
}

// out[rows, A] = p[rows, end] x[end, A], where x are keys or values and out lies as q does.
template <class T>
void over_keys(const Shape& shape, const Block& block, const T* p, const T* x, T* out) {
  gemm<T>({.a = p,
           .lda = block.end,
           .b = x + shape.kv(block.b, shape.kv_head(block.h)),
           .ldb = shape.kv_row(),
           .c = out + shape.q(block.b, block.h, block.begin),
           .ldc = shape.q_row(),
           .m = block.rows(),
           .n = shape.size,
           .k = block.end},
          Layout::nn, Into::overwrite);
}

// out[end, A] (+)= p[rows, end] transposed x[rows, A], where x lies as q does and out as keys do.
template <class T>
struct ToKeys {
  const T* p;
  const T* x;
  T* out;
  Into into;
};

template <class T>
void to_keys(const Shape& shape, const Block& block, const ToKeys<T>& t) {
  gemm<T>({.a = t.p,
           .lda = block.end,
           .b = t.x + shape.q(block.b, block.h, block.begin),
           .ldb = shape.q_row(),
           .c = t.out + shape.kv(block.b, shape.kv_head(block.h)),
           .ldc = shape.kv_row(),
           .m = block.end,
           .n = shape.size,
           .k = block.rows()},
          Layout::tn, t.into);
}

// Turns one row of raw scores into probabilities, zero for keys after position `last`; returns the log of the sum of
// exponentials.
template <class T>
T probabilities(T* row, int64_t last, int64_t keys, T scale) {
  T top = max_of(row, last + 1);
  for (int64_t i = 0; i <= last; ++i) row[i] = fast_exp(scale * (row[i] - top));
  T sum = sum_of<T>(last + 1, [=](int64_t i) { return row[i]; });
  for (int64_t i = 0; i <= last; ++i) row[i] /= sum;
  std::fill(row + last + 1, row + keys, T{0});
  return scale * top + std::log(sum);
}

template <class T>
struct Forward {
  const T *q, *k, *v;
  T *o, *lse;
};

template <class T>
void forward_block(const Shape& shape, const Forward<T>& f, const Block& block, T* scores) {
  T scale = static_cast<T>(shape.scale());
  against_keys(shape, block, f.q, f.k, scores);
  for (int64_t s = block.begin; s < block.end; ++s) {
    T* row = scores + (s - block.begin) * block.end;
    f.lse[shape.lse(block.b, block.h) + s] = probabilities(row, s, block.end, scale);
  }
  over_keys(shape, block, scores, f.v, f.o);
}

template <class T>
struct Backward {
  const T *q, *k, *v, *o, *lse, *d_o;
  T *dq, *dk, *dv;
};

// p and ds of one query row: p = exp(scale q k - lse), ds = scale p (dp - <do, o>).
template <class T>
struct ScoreRow {
  T* p;
  T* ds;  // holds dp on entry
  int64_t last, keys;
  T lse, along;
};

template <class T>
void grad_of_scores(const ScoreRow<T>& row, T scale) {
  T* __restrict p = row.p;
  T* __restrict ds = row.ds;
  for (int64_t i = 0; i <= row.last; ++i) {
    p[i] = fast_exp(scale * p[i] - row.lse);
    ds[i] = scale * p[i] * (ds[i] - row.along);
  }
  std::fill(p + row.last + 1, p + row.keys, T{0});
  std::fill(ds + row.last + 1, ds + row.keys, T{0});
}

template <class T>
struct BackwardScratch {
  T *p, *ds;
};

template <class T>
void backward_block(const Shape& shape, const Backward<T>& g, const Block& block, const BackwardScratch<T>& scratch,
                    Into into) {
  against_keys(shape, block, g.q, g.k, scratch.p);
  against_keys(shape, block, g.d_o, g.v, scratch.ds);
  for (int64_t s = block.begin; s < block.end; ++s) {
    int64_t place = shape.q(block.b, block.h, s), row = (s - block.begin) * block.end;
    grad_of_scores<T>({.p = scratch.p + row,
                       .ds = scratch.ds + row,
                       .last = s,
                       .keys = block.end,
                       .lse = g.lse[shape.lse(block.b, block.h) + s],
                       .along = dot(g.d_o + place, g.o + place, shape.size)},
                      static_cast<T>(shape.scale()));
  }
  over_keys<T>(shape, block, scratch.ds, g.k, g.dq);
  to_keys<T>(shape, block, {scratch.ds, g.q, g.dk, into});
  to_keys<T>(shape, block, {scratch.p, g.d_o, g.dv, into});
}

// All query heads of one key head, last rows first: they see every key, so they write what the others add to.
template <class T>
void backward_of_key_head(const Shape& shape, const Backward<T>& g, int64_t b, int64_t j,
                          const BackwardScratch<T>& scratch) {
  int64_t share = shape.heads / shape.kv_heads;
  int64_t last_block = (shape.positions - 1) / kBlock * kBlock;
  for (int64_t h = j * share; h < (j + 1) * share; ++h)
    for (int64_t begin = last_block; begin >= 0; begin -= kBlock) {
      Into into = h == j * share && begin == last_block ? Into::overwrite : Into::accumulate;
      backward_block(shape, g, {b, h, begin, std::min(shape.positions, begin + kBlock)}, scratch, into);
    }
}

}  // namespace

namespace {

// One key head with its query heads, as float32: [S, share, A] and [S, A] of one sequence.
template <class T>
class HeadsInFloat {
 public:
  explicit HeadsInFloat(const Shape& all)
      : all_(all), one_{1, all.positions, all.heads / all.kv_heads, 1, all.size}, scores_(2 * kBlock * all.positions) {
    for (auto* v : {&q_, &o_, &do_, &dq_}) v->resize(all.positions * one_.q_row());
    for (auto* v : {&k_, &v_, &dk_, &dv_}) v->resize(all.positions * one_.kv_row());
  }

  void forward(const Forward<T>& f, float* lse, int64_t b, int64_t j) {
    read(f.q, f.k, f.v, b, j);
    const Forward<float> wide{q_.data(), k_.data(), v_.data(), o_.data(), lse + all_.lse(b, j * one_.heads)};
    for (int64_t h = 0; h < one_.heads; ++h)
      for (int64_t begin = 0; begin < all_.positions; begin += kBlock)
        forward_block(one_, wide, {0, h, begin, std::min(all_.positions, begin + kBlock)}, scores_.data());
    write(o_, f.o + all_.q(b, j * one_.heads), {one_.q_row(), all_.q_row()});
  }

  void backward(const Backward<T>& g, const float* lse, int64_t b, int64_t j) {
    const int64_t query = all_.q(b, j * one_.heads), key = all_.kv(b, j);
    read(g.q, g.k, g.v, b, j);
    read(g.o + query, o_, {one_.q_row(), all_.q_row()});
    read(g.d_o + query, do_, {one_.q_row(), all_.q_row()});
    const Backward<float> wide{q_.data(),  k_.data(),  v_.data(),  o_.data(), lse + all_.lse(b, j * one_.heads),
                               do_.data(), dq_.data(), dk_.data(), dv_.data()};
    backward_of_key_head<float>(one_, wide, 0, 0, {scores_.data(), scores_.data() + kBlock * all_.positions});
    write(dq_, g.dq + query, {one_.q_row(), all_.q_row()});
    write(dk_, g.dk + key, {one_.kv_row(), all_.kv_row()});
    write(dv_, g.dv + key, {one_.kv_row(), all_.kv_row()});
  }

 private:
  struct Rows {
    int64_t width, stride;  // of a position, in the whole
  };

  void read(const T* from, std::vector<float>& to, Rows rows) {
    for (int64_t s = 0; s < all_.positions; ++s) widen(from + s * rows.stride, to.data() + s * rows.width, rows.width);
  }
  void write(const std::vector<float>& from, T* to, Rows rows) {
    for (int64_t s = 0; s < all_.positions; ++s) narrow(from.data() + s * rows.width, to + s * rows.stride, rows.width);
  }
  void read(const T* q, const T* k, const T* v, int64_t b, int64_t j) {
    read(q + all_.q(b, j * one_.heads), q_, {one_.q_row(), all_.q_row()});
    read(k + all_.kv(b, j), k_, {one_.kv_row(), all_.kv_row()});
    read(v + all_.kv(b, j), v_, {one_.kv_row(), all_.kv_row()});
  }

  const Shape all_, one_;
  std::vector<float> q_, k_, v_, o_, do_, dq_, dk_, dv_, scores_;
};

// body(heads, sequence, key head) for every key head.
template <class T, class Body>
void over_key_heads(const Shape& shape, Body body) {
  at::parallel_for(0, shape.batch * shape.kv_heads, shape.grain(), [&](int64_t first, int64_t last) {
    HeadsInFloat<T> heads(shape);
    for (int64_t bj = first; bj < last; ++bj) body(heads, bj / shape.kv_heads, bj % shape.kv_heads);
  });
}

template <class T>
void attention_of_halves(const Shape& shape, const Attention& x) {
  const Forward<T> forward{in<T>(x.q_BSHA), in<T>(x.k_BSJA), in<T>(x.v_BSJA), out<T>(x.o_BSHA), nullptr};
  float* lse = out<float>(x.lse_BHS);
  over_key_heads<T>(shape, [&](HeadsInFloat<T>& heads, int64_t b, int64_t j) { heads.forward(forward, lse, b, j); });
}

template <class T>
void attention_grad_of_halves(const Shape& shape, const AttentionGrad& x) {
  const Backward<T> backward{in<T>(x.q_BSHA),  in<T>(x.k_BSJA),   in<T>(x.v_BSJA),   in<T>(x.o_BSHA),  nullptr,
                             in<T>(x.do_BSHA), out<T>(x.dq_BSHA), out<T>(x.dk_BSJA), out<T>(x.dv_BSJA)};
  const float* lse = in<float>(x.lse_BHS);
  over_key_heads<T>(shape, [&](HeadsInFloat<T>& heads, int64_t b, int64_t j) { heads.backward(backward, lse, b, j); });
}

}  // namespace

void attention(const Attention& x) {
  Shape shape = shape_of(x.q_BSHA, x.k_BSJA, x.v_BSJA);
  expects(x.o_BSHA.sizes() == x.q_BSHA.sizes() && x.lse_BHS.numel() == shape.batch * shape.heads * shape.positions,
          "attention: the outputs do not fit");
  by_element(x.q_BSHA, [&]<class T>(T) {
    if constexpr (kIsHalf<T>)
      return attention_of_halves<T>(shape, x);
    else {
      Forward<T> forward{in<T>(x.q_BSHA), in<T>(x.k_BSJA), in<T>(x.v_BSJA), out<T>(x.o_BSHA), out<T>(x.lse_BHS)};
      at::parallel_for(0, shape.batch * shape.heads, shape.grain(), [&](int64_t first, int64_t last) {
        std::vector<T> scores(kBlock * shape.positions);
        for (int64_t bh = first; bh < last; ++bh)
          for (int64_t begin = 0; begin < shape.positions; begin += kBlock) {
            int64_t end = std::min(shape.positions, begin + kBlock);
            forward_block(shape, forward, {bh / shape.heads, bh % shape.heads, begin, end}, scores.data());
          }
      });
    }
  });
}

void attention_grad(const AttentionGrad& x) {
  Shape shape = shape_of(x.q_BSHA, x.k_BSJA, x.v_BSJA);
  expects(x.dq_BSHA.sizes() == x.q_BSHA.sizes() && x.dk_BSJA.sizes() == x.k_BSJA.sizes() &&
              x.dv_BSJA.sizes() == x.k_BSJA.sizes() && x.do_BSHA.sizes() == x.q_BSHA.sizes() &&
              x.o_BSHA.sizes() == x.q_BSHA.sizes(),
          "attention_grad: values and gradients do not fit");
  by_element(x.q_BSHA, [&]<class T>(T) {
    if constexpr (kIsHalf<T>)
      return attention_grad_of_halves<T>(shape, x);
    else {
      Backward<T> backward{in<T>(x.q_BSHA),  in<T>(x.k_BSJA),   in<T>(x.v_BSJA),   in<T>(x.o_BSHA),  in<T>(x.lse_BHS),
                           in<T>(x.do_BSHA), out<T>(x.dq_BSHA), out<T>(x.dk_BSJA), out<T>(x.dv_BSJA)};
      at::parallel_for(0, shape.batch * shape.kv_heads, shape.grain(), [&](int64_t first, int64_t last) {
        std::vector<T> p(kBlock * shape.positions), ds(kBlock * shape.positions);
        for (int64_t bj = first; bj < last; ++bj)
          backward_of_key_head<T>(shape, backward, bj / shape.kv_heads, bj % shape.kv_heads, {p.data(), ds.data()});
      });
    }
  });
}

}  // namespace plait::kernels
