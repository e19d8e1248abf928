// Element-wise non-linearities of the feed-forward blocks and experts, plain and gated. Leading dims fold into R.
#pragma once
#include <ATen/core/Tensor.h>

#include "schedule/choices.h"

namespace plait::kernels {

// y = act(x[:, 0, :]) * x[:, 1, :]: U = 2 holds gate and up.
void glu(Act act, const at::Tensor& x_RUF, const at::Tensor& y_RF);
// dx may be x itself, here and below.
void glu_grad(Act act, const at::Tensor& x_RUF, const at::Tensor& dy_RF, const at::Tensor& dx_RUF);

void activate(Act act, const at::Tensor& x, const at::Tensor& y);
void activate_grad(Act act, const at::Tensor& x, const at::Tensor& dy, const at::Tensor& dx);

}  // namespace plait::kernels
