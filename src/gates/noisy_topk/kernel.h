// Noisy top-k gating (Shazeer et al. 2017): noise on the logits, and the importance and load of the experts by which
// its loss balances them.
#pragma once
#include "kernels/cpu/gate.h"

namespace plait::kernels {

// noisy = logits + a standard normal draw * softplus(spread).
struct NoiseTerms {
  at::Tensor logits_TE, spread_TE;
};
void add_noise(const NoiseTerms& terms, const Draws& draws, const at::Tensor& noisy_TE);
void noise_grad(const at::Tensor& spread_TE, const at::Tensor& dnoisy_TE, const Draws& draws,
                const at::Tensor& dspread_TE);

// importance[e] = sum over real tokens of the softmax over the top k noisy logits; load[e] = sum of the probability
// that e would be among them were its noise drawn again, the others' kept.
struct NoisyLogits {
  at::Tensor logits_TE, spread_TE, noisy_TE;
};
struct NoisyStats {
  at::Tensor importance_E, load_E;
};
void noisy_stats(const NoisyLogits& of, const at::Tensor& mask_T, int64_t top_k, const NoisyStats& out);

struct NoisyStatsGrad {
  int64_t top_k = 1;
  NoisyStats grad;
};
void noisy_stats_grad(const NoisyLogits& of, const at::Tensor& mask_T, const NoisyStatsGrad& grad,
                      const NoisyLogits& out);

}  // namespace plait::kernels
