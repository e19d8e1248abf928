#include "ops/optimizer.h"

#include <cmath>
#include <vector>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plait::ops {
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
  const T* __restrict grad;
  T* __restrict m;
  T* __restrict v;
};

template <class T>
void adamw_range(const Factors<T>& f, const State<T>& state, int64_t begin, int64_t end) {
  T* __restrict param = state.param;
  const T* __restrict grad = state.grad;
  T* __restrict m = state.m;
  T* __restrict v = state.v;
  for (int64_t i = begin; i < end; ++i) {
    T g = grad[i] * f.grad_scale;
    T mean = m[i] + (1 - f.beta1) * (g - m[i]);
    T square = f.beta2 * v[i] + (1 - f.beta2) * g * g;
    m[i] = mean;
    v[i] = square;
    param[i] = f.decay * param[i] - f.step_size * mean / (std::sqrt(square) * f.inverse_root + f.eps);
  }
}

// body(begin, end) over the elements of tensors of one size.
template <class Body>
void over_elements(const at::Tensor& x, Body body) {
  at::parallel_for(0, x.numel(), kGrain, body);
}

}  // namespace

void adamw(const AdamW& args, const at::Tensor& grad_scale, const at::Tensor& param, const at::Tensor& grad,
           const Moments& moments) {
  expects(args.step >= 1, "adamw: steps count from 1");
  expects(grad.numel() == param.numel() && moments.m.numel() == param.numel() && moments.v.numel() == param.numel(),
          "adamw: parameter, gradient and moments do not fit");
  by_dtype(param, [&]<class T>(T) {
    Factors<T> factors = factors_of(args, static_cast<T>(*in<double>(grad_scale)));
    State<T> state{out<T>(param), in<T>(grad), out<T>(moments.m), out<T>(moments.v)};
    over_elements(param, [=](int64_t begin, int64_t end) { adamw_range(factors, state, begin, end); });
  });
}

void sgd(const Sgd& args, const at::Tensor& grad_scale, const at::Tensor& param, const at::Tensor& grad) {
  expects(grad.numel() == param.numel(), "sgd: parameter and gradient do not fit");
  by_dtype(param, [&]<class T>(T) {
    T lr = static_cast<T>(args.lr), decay = static_cast<T>(args.weight_decay),
      scale = static_cast<T>(*in<double>(grad_scale));
    T* p = out<T>(param);
    const T* g = in<T>(grad);
    over_elements(param, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) p[i] -= lr * (scale * g[i] + decay * p[i]);
    });
  });
}

void sum_squares(const at::Tensor& x, const at::Tensor& sum) {
  by_dtype(x, [&]<class T>(T) {
    const T* p = in<T>(x);
    std::vector<double> sums((x.numel() + kBlock - 1) / kBlock);
    over_blocks(x.numel(), kBlock, [&](int64_t block, int64_t begin, int64_t end) {
      sums[block] = sum_of<double>(end - begin, [=](int64_t i) {
        double value = static_cast<double>(p[begin + i]);
        return value * value;
      });
    });
    add_in_order<double>(sums, 1, out<double>(sum));
  });
}

void add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum) {
  expects(a.numel() == b.numel() && a.numel() == sum.numel(), "add: the tensors do not fit");
  by_dtype(sum, [&]<class T>(T) {
    const T *p = in<T>(a), *q = in<T>(b);
    T* to = out<T>(sum);
    over_elements(sum, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = p[i] + q[i];
    });
  });
}

void accumulate(const at::Tensor& sum, const at::Tensor& x) { add(sum, x, sum); }

void scale(const at::Tensor& x, double factor, const at::Tensor& scaled) {
  expects(x.numel() == scaled.numel(), "scale: the tensors do not fit");
  by_dtype(x, [&]<class T>(T) {
    const T* from = in<T>(x);
    T *to = out<T>(scaled), by = static_cast<T>(factor);
    over_elements(x, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = by * from[i];
    });
  });
}

}  // namespace plait::ops
