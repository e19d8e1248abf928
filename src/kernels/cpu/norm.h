// Root-mean-square norm over the last dim: y = x * gain / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019).
// Leading dims are folded into T. Activations of 2 bytes have a gain, and its gradient, of float32.
#pragma once
#include <ATen/core/Tensor.h>

namespace plait::kernels {

void rms_norm(const at::Tensor& x_TD, const at::Tensor& gain_D, double eps, const at::Tensor& y_TD);

struct RmsNormGrad {
  at::Tensor x_TD, gain_D, dy_TD;
  at::Tensor dx_TD, dgain_D;  // written
};

// Recomputes the row's scale from x: nothing is kept by the forward kernel.
void rms_norm_grad(const RmsNormGrad& grad, double eps);

}  // namespace plait::kernels
