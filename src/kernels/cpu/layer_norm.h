// LayerNorm over the last dim: y = (x - mean) * gain / sqrt(variance + eps) + bias (Ba, Kiros and Hinton 2016).
// Leading dims are folded into T. Activations of 2 bytes have gain, bias and their gradients of float32.
#pragma once
#include <ATen/core/Tensor.h>

namespace plait::kernels {

struct LayerNorm {
  at::Tensor x_TD, gain_D, bias_D;
  at::Tensor y_TD;  // written
};
void layer_norm(const LayerNorm& norm, double eps);

struct LayerNormGrad {
  at::Tensor x_TD, gain_D, dy_TD;
  at::Tensor dx_TD, dgain_D, dbias_D;  // written
};

// Recomputes mean and scale of a row from x: nothing is kept by the forward kernel.
void layer_norm_grad(const LayerNormGrad& grad, double eps);

}  // namespace plait::kernels
