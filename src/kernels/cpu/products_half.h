// Matrix products of numbers of 2 bytes, added up in float32 and rounded once.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/cpu/gemm.h"

namespace plait::kernels {

// As matmul. bfloat16 goes to the processor's own instructions, by oneDNN, where it has them; else blocks of the
// operands are widened and multiplied in float32. `into` accumulate is for float32 and float64 alone.
void half_matmul(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out_MN, Into into);

}  // namespace plait::kernels
