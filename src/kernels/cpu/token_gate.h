// What works on each token's elements beside norms: biases, a gate of the whole token, and bounds.
#pragma once
#include <ATen/core/Tensor.h>

namespace plait::kernels {

// y = x + b, where y may be x itself; db = the sum of the rows of dy. Activations of 2 bytes have biases, and their
// gradient, of float32.
void add_bias(const at::Tensor& x_TD, const at::Tensor& b_D, const at::Tensor& y_TD);
void bias_grad(const at::Tensor& dy_TD, const at::Tensor& db_D);

// y = sigmoid(z) * x. Activations of 2 bytes have gates, and their gradient, of float32.
void gated(const at::Tensor& x_TD, const at::Tensor& z_T, const at::Tensor& y_TD);

struct GatedGrad {
  at::Tensor x_TD, z_T, dy_TD;
  at::Tensor dx_TD, dz_T;  // written
};
void gated_grad(const GatedGrad& grad);

// y = x between -bound and bound; dx = dy where x lies there, else 0.
void clip(const at::Tensor& x, double bound, const at::Tensor& y);
void clip_grad(const at::Tensor& x, const at::Tensor& dy, double bound, const at::Tensor& dx);

}  // namespace plait::kernels
