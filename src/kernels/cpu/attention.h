// Causal attention with grouped heads: query head h attends with key/value head h / (H/J), scale 1/sqrt(A).
// Query rows are taken a block at a time, so no S x S matrix is ever whole.
#pragma once
#include <ATen/core/Tensor.h>

namespace plait::kernels {

struct Attention {
  at::Tensor q_BSHA, k_BSJA, v_BSJA;
  at::Tensor o_BSHA, lse_BHS;  // written; lse is the log of each row's sum of exponentials, kept for the gradient
};

// Scratch per thread: 64 x S elements.
void attention(const Attention& forward);

struct AttentionGrad {
  at::Tensor q_BSHA, k_BSJA, v_BSJA, o_BSHA, lse_BHS, do_BSHA;
  at::Tensor dq_BSHA, dk_BSJA, dv_BSJA;  // written
};

// Scratch per thread: 128 x S elements.
void attention_grad(const AttentionGrad& grad);

}  // namespace plait::kernels
