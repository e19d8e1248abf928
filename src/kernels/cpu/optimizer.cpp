#include "kernels/cpu/optimizer.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
namespace {

constexpr int64_t kBlock = 8192;  // elements whose squares are summed before they are added to the others

template <class T>
struct Factors {
  T grad_scale, decay, beta1, beta2, step_size, inverse_root, eps;
};

template <class T>
Factors<T> factors_of(const AdamW& a, T grad_scale) {
  double correction1 = 1 - std::pow(a.beta1, static_cast<double>(a.step));
  double correction2 = 1 - std::pow(a.beta2, static_cast<double>(a.step));
  return {.grad_scale = grad_scale,
          .decay = static_cast<T>(1 - a.lr * a.weight_decay),
          .beta1 = static_cast<T>(a.beta1),
          .beta2 = static_cast<T>(a.beta2),
          .step_size = static_cast<T>(a.lr / correction1),
          .inverse_root = static_cast<T>(1 / std::sqrt(correction2)),
          .eps = static_cast<T>(a.eps)};
}

template <class T>
struct State {
  T* __restrict param;
  T* __restrict m;
  T* __restrict v;
};

template <class T>
void adamw_range(const Factors<T>& f, const State<T>& state, const T* __restrict grad, int64_t size) {
  T* __restrict param = state.param;
  T* __restrict m = state.m;
  T* __restrict v = state.v;
  for (int64_t i = 0; i < size; ++i) {
    T g = grad[i] * f.grad_scale;
    T mean = m[i] + (1 - f.beta1) * (g - m[i]);
    T square = f.beta2 * v[i] + (1 - f.beta2) * g * g;
    m[i] = mean;
    v[i] = square;
    param[i] = f.decay * param[i] - f.step_size * mean / (std::sqrt(square) * f.inverse_root + f.eps);
  }
}

template <class T>
void sgd_range(const Sgd& args, T scale, T* __restrict param, const T* __restrict grad, int64_t size) {
  const T lr = static_cast<T>(args.lr), decay = static_cast<T>(args.weight_decay);
  for (int64_t i = 0; i < size; ++i) param[i] -= lr * (scale * grad[i] + decay * param[i]);
}

// body(first, size, gradient) for stretches of a parameter of T: `tile` elements at once, on all threads; a gradient of
// 2 bytes is widened one stretch at a time, never more than the tile.
template <class T, class Body>
void over_tiles(const at::Tensor& grad, int64_t tile, Body body) {
  expects(tile >= 1, "a tile holds at least one parameter");
  const auto each = [&]<class E>(E) {
    const E* g = in<E>(grad);
    for (int64_t first = 0; first < grad.numel(); first += tile)
      over_stretches<E>(std::min(tile, grad.numel() - first), [&](int64_t at, int64_t size, Wide<E>* space) {
        body(first + at, size, wide(g + first + at, size, space));
      });
  };
  if constexpr (std::is_same_v<T, float>)
    if (grad.element_size() == 2) return grad.scalar_type() == at::kHalf ? each(c10::Half{}) : each(c10::BFloat16{});
  each(T{});
}

}  // namespace

void adamw(const AdamW& args, const at::Tensor& grad_scale, const at::Tensor& param, const at::Tensor& grad,
           const Moments& moments) {
  expects(args.step >= 1, "adamw: steps count from 1");
  expects(grad.numel() == param.numel() && moments.m.numel() == param.numel() && moments.v.numel() == param.numel(),
          "adamw: parameter, gradient and moments do not fit");
  by_dtype(param, [&]<class T>(T) {
    const Factors<T> factors = factors_of(args, static_cast<T>(*in<double>(grad_scale)));
    const State<T> all{out<T>(param), out<T>(moments.m), out<T>(moments.v)};
    over_tiles<T>(grad, args.tile, [&](int64_t first, int64_t size, const T* g) {
      adamw_range(factors, {all.param + first, all.m + first, all.v + first}, g, size);
    });
  });
}

void sgd(const Sgd& args, const at::Tensor& grad_scale, const at::Tensor& param, const at::Tensor& grad) {
  expects(grad.numel() == param.numel(), "sgd: parameter and gradient do not fit");
  by_dtype(param, [&]<class T>(T) {
    const T scale = static_cast<T>(*in<double>(grad_scale));
    T* p = out<T>(param);
    over_tiles<T>(grad, args.tile,
                  [&](int64_t first, int64_t size, const T* g) { sgd_range(args, scale, p + first, g, size); });
  });
}

void sum_squares(const at::Tensor& x, const at::Tensor& sum) {
  by_element(x, [&]<class E>(E) {
    const E* from = in<E>(x);
    std::vector<double> sums((x.numel() + kBlock - 1) / kBlock);
    over_blocks(x.numel(), kBlock, [&](int64_t block, int64_t begin, int64_t end) {
      std::vector<Wide<E>> a = space<E>(end - begin);
      const Wide<E>* p = wide(from + begin, end - begin, a.data());
      sums[block] = sum_of<double>(end - begin, [=](int64_t i) {
        double value = static_cast<double>(p[i]);
        return value * value;
      });
    });
    add_in_order<double>(sums, 1, out<double>(sum));
  });
}

namespace {

// to = a + b, where `to` and a are of A, b of B.
template <class A, class B>
void add_elements(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to) {
  const A* as = in<A>(a);
  const B* bs = in<B>(b);
  A* sums = out<A>(to);
  over_stretches<B>(to.numel(), [=](int64_t at, int64_t size, Wide<B>* space) {
    const Wide<B>*p = wide(as + at, size, space), *q = wide(bs + at, size, space + kStretchOfHalves);
    Wide<B>* sum = room(sums + at, space + 2 * kStretchOfHalves);
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) sum[i] = p[i] + q[i];
    settle(sum, sums + at, size);
  });
}

}  // namespace

void add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum) {
  expects(a.numel() == b.numel() && a.numel() == sum.numel(), "add: the tensors do not fit");
  by_element(b, [&]<class B>(B) {
    sum.scalar_type() == b.scalar_type() ? add_elements<B, B>(a, b, sum) : add_elements<Wide<B>, B>(a, b, sum);
  });
}

void accumulate(const at::Tensor& sum, const at::Tensor& x) { add(sum, x, sum); }

void scale(const at::Tensor& x, double factor, const at::Tensor& scaled) {
  expects(x.numel() == scaled.numel(), "scale: the tensors do not fit");
  by_element(x, [&]<class E>(E) {
    const E* from = in<E>(x);
    E* to = out<E>(scaled);
    const auto by = static_cast<Wide<E>>(factor);
    over_stretches<E>(x.numel(), [=](int64_t at, int64_t size, Wide<E>* space) {
      const Wide<E>* p = wide(from + at, size, space);
      Wide<E>* q = room(to + at, space + kStretchOfHalves);
#pragma GCC ivdep
      for (int64_t i = 0; i < size; ++i) q[i] = by * p[i];
      settle(q, to + at, size);
    });
  });
}

void cast(const at::Tensor& x, const at::Tensor& y) {
  expects(x.numel() == y.numel() && x.scalar_type() != y.scalar_type(), "cast: x and y do not fit");
  const at::Tensor& half = x.element_size() == 2 ? x : y;
  expects(half.element_size() == 2, "cast: between float32 and a type of 2 bytes");
  by_element(half, [&]<class E>(E) {
    if constexpr (kIsHalf<E>)
      at::parallel_for(0, x.numel(), kGrain, [&](int64_t begin, int64_t end) {
        if (x.element_size() == 2)
          widen(in<E>(x) + begin, out<float>(y) + begin, end - begin);
        else
          narrow(in<float>(x) + begin, out<E>(y) + begin, end - begin);
      });
  });
}

}  // namespace plait::kernels
