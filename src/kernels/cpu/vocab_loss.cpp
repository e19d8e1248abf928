#include "kernels/cpu/vocab_loss.h"

#include <cmath>

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
namespace {

struct Sizes {
  int64_t tokens, held, slices;
};

Sizes sizes_of(const VocabSlice& slice) {
  Sizes sizes{slice.z_Tv.size(0), slice.z_Tv.size(1), slice.m_Tq.size(1)};
  expects(slice.m_Tq.size(0) == sizes.tokens && slice.target_T.numel() == sizes.tokens,
          "vocab_loss: logits, maxima and targets differ in tokens");
  return sizes;
}

void expects_sums(const ExpSumTarget& sums, int64_t tokens) {
  expects(sums.s_T.numel() == tokens && sums.c_T.numel() == tokens, "vocab_loss: one sum and one target per token");
}

// exp(z - m) of one row, ds times; the target's own part comes after.
template <class T>
void scaled_exp(const T* z, T m, T ds, T* dz, int64_t size) {
  for (int64_t v = 0; v < size; ++v) dz[v] = ds * fast_exp(z[v] - m);
}

}  // namespace

void row_max(const at::Tensor& z_Tv, const at::Tensor& m_T1) {
  int64_t tokens = z_Tv.size(0), held = z_Tv.size(1);
  expects(m_T1.numel() == tokens, "row_max: one maximum per token");
  by_dtype(z_Tv, [&]<class T>(T) {
    const T* z = in<T>(z_Tv);
    T* m = out<T>(m_T1);
    over_rows(tokens, held, [=](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) m[t] = max_of(z + t * held, held);
    });
  });
}

void exp_sum_target(const VocabSlice& slice, const ExpSumTarget& sums) {
  auto [tokens, held, slices] = sizes_of(slice);
  expects_sums(sums, tokens);
  by_dtype(slice.z_Tv, [&, held = held, slices = slices]<class T>(T) {
    const T *z = in<T>(slice.z_Tv), *m = in<T>(slice.m_Tq);
    const int64_t* target = in<int64_t>(slice.target_T);
    T *s = out<T>(sums.s_T), *c = out<T>(sums.c_T);
    over_rows(tokens, 4 * held, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* row = z + t * held;
        T top = max_of(m + t * slices, slices);
        int64_t mine = target[t] - slice.first;
        s[t] = sum_of<T>(held, [=](int64_t v) { return fast_exp(row[v] - top); });
        c[t] = mine >= 0 && mine < held ? row[mine] - top : T{0};
      }
    });
  });
}

void exp_sum_target_grad(const VocabSlice& slice, const ExpSumTarget& grad, const at::Tensor& dz_Tv) {
  auto [tokens, held, slices] = sizes_of(slice);
  expects_sums(grad, tokens);
  expects(dz_Tv.sizes() == slice.z_Tv.sizes(), "exp_sum_target_grad: z and dz do not fit");
  by_dtype(slice.z_Tv, [&, held = held, slices = slices]<class T>(T) {
    const T *z = in<T>(slice.z_Tv), *m = in<T>(slice.m_Tq), *ds = in<T>(grad.s_T), *dc = in<T>(grad.c_T);
    const int64_t* target = in<int64_t>(slice.target_T);
    T* dz = out<T>(dz_Tv);
    over_rows(tokens, 4 * held, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        T* row = dz + t * held;
        if (ds[t] == 0)
          std::fill_n(row, held, T{0});
        else
          scaled_exp(z + t * held, max_of(m + t * slices, slices), ds[t], row, held);
        int64_t mine = target[t] - slice.first;
        if (mine >= 0 && mine < held) row[mine] += dc[t];
      }
    });
  });
}

void nll(const ExpSumTarget& sums, const at::Tensor& weight_T, const at::Tensor& loss) {
  int64_t tokens = weight_T.numel();
  expects_sums(sums, tokens);
  by_dtype(weight_T, [&]<class T>(T) {
    const T *s = in<T>(sums.s_T), *c = in<T>(sums.c_T), *weight = in<T>(weight_T);
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t)
      if (weight[t] != 0) sum += static_cast<double>(weight[t]) * static_cast<double>(std::log(s[t]) - c[t]);
    *out<T>(loss) = static_cast<T>(sum);
  });
}

void nll_grad(const NllGrad& g) {
  int64_t tokens = g.weight_T.numel();
  expects(g.s_T.numel() == tokens, "nll_grad: one sum per token");
  expects_sums(g.grad, tokens);
  by_dtype(g.weight_T, [&]<class T>(T) {
    const T *s = in<T>(g.s_T), *weight = in<T>(g.weight_T);
    T dloss = *in<T>(g.dloss), *ds = out<T>(g.grad.s_T), *dc = out<T>(g.grad.c_T);
    for (int64_t t = 0; t < tokens; ++t) {
      ds[t] = weight[t] == 0 ? T{0} : dloss * weight[t] / s[t];
      dc[t] = weight[t] == 0 ? T{0} : -dloss * weight[t];
    }
  });
}

}  // namespace plait::kernels
