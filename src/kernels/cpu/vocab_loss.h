// Cross-entropy over a vocabulary in slices: z_Tv are this rank's logits, of ids [first, first + v). With
// M = max over slices of row_max, s = sum over slices of exp(z - M), c = z[target] - M, the loss of a token is
// log s - c; s and c are added over slices between the kernels. M carries no gradient.
#pragma once
#include <ATen/core/Tensor.h>

namespace plait::kernels {

void row_max(const at::Tensor& z_Tv, const at::Tensor& m_T1);

// What both directions read. Targets outside the slice (or the vocabulary) give c = 0.
struct VocabSlice {
  at::Tensor z_Tv;
  at::Tensor m_Tq;      // the maxima of all q slices
  at::Tensor target_T;  // int64
  int64_t first;
};

struct ExpSumTarget {
  at::Tensor s_T, c_T;
};

void exp_sum_target(const VocabSlice& slice, const ExpSumTarget& out);

// dz = ds * exp(z - M), and dc more at the target. dz_Tv may be z_Tv itself.
void exp_sum_target_grad(const VocabSlice& slice, const ExpSumTarget& grad, const at::Tensor& dz_Tv);

// loss[] = sum of weight * (log s - c). A token of weight 0 (padding) counts exactly 0, whatever its s.
void nll(const ExpSumTarget& sums, const at::Tensor& weight_T, const at::Tensor& loss);

struct NllGrad {
  at::Tensor s_T, weight_T, dloss;
  ExpSumTarget grad;  // written
};

void nll_grad(const NllGrad& grad);

}  // namespace plait::kernels
