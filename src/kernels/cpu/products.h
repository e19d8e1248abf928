// The two-operand contractions a schedule lowers to: one matrix product, a batch of them, and one per expert over
// rows that lie sorted by expert. Dimensions beyond the needed ones are not folded: the caller passes views.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "kernels/cpu/gemm.h"

namespace plait::kernels {

// out_MN (+)= a b: nn a_MK b_KN; nt a_MK b_NK; tn a_KM b_KN. Rows may lie apart (stride of dim 0), columns not.
void matmul(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out_MN,
            Into into = Into::overwrite);

// The same for each of G in front: a_GMK ...
void bmm(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out_GMN,
         Into into = Into::overwrite);

// One expert e owns counts[e] consecutive rows; counts sum to R.
struct Grouped {
  at::Tensor a;                         // a_RK or a_RM
  at::Tensor b;                         // b_EKN (nn), b_ENK (nt) or b_RN (tn)
  std::span<const int64_t> row_counts;  // one per local expert
  at::Tensor out;                       // out_RN, or out_EMN for tn (the gradient of a weight; zero for idle experts)
};

// nn: out[rows of e] = a[rows of e] b[e]; nt: ... b[e] transposed; tn: out[e] = a[rows of e] transposed, b[rows of e].
void grouped(const Grouped& operands, Layout layout, Into into = Into::overwrite);

}  // namespace plait::kernels
