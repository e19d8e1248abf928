// What a step does to parameters, in place and in one pass, and the sums it needs. Element-wise kernels give the same
// bits however a parameter is cut into pieces.
#pragma once
#include <ATen/core/Tensor.h>

namespace plait::kernels {

// Parameters updated at once: 1 GiB at 6 bytes. A gradient of 2 bytes is never float32 for more of them; the bits do
// not depend on it.
constexpr int64_t kTile = 178956971;

// Decoupled weight decay (Loshchilov and Hutter 2019), with bias correction; `step` counts from 1.
struct AdamW {
  double lr;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0;
  int64_t step;
  int64_t tile = kTile;
};

struct Moments {
  at::Tensor m, v;
};

// grad_scale[] (float64) multiplies the gradient first (the clip factor). param and moments are updated, grad is only
// read; that of a float32 parameter may have 2 bytes.
void adamw(const AdamW& args, const at::Tensor& grad_scale, const at::Tensor& param, const at::Tensor& grad,
           const Moments& moments);

struct Sgd {
  double lr;
  double weight_decay = 0;  // param -= lr * (scaled grad + weight_decay * param)
  int64_t tile = kTile;
};

void sgd(const Sgd& args, const at::Tensor& grad_scale, const at::Tensor& param, const at::Tensor& grad);

// out[] (float64) = sum of x^2, added in float64 over blocks of fixed size.
void sum_squares(const at::Tensor& x, const at::Tensor& out);

// The result may be an operand itself.
void add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out);
void accumulate(const at::Tensor& out, const at::Tensor& x);  // out += x; out may be float32 where x has 2 bytes
void scale(const at::Tensor& x, double factor, const at::Tensor& out);
// Between float32 and a type of 2 bytes.
void cast(const at::Tensor& x, const at::Tensor& y);

}  // namespace plait::kernels
