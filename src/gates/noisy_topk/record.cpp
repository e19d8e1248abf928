// Noisy top-k gating (Shazeer et al. 2017): the softmax over the top k of logits with learned noise (op Noise), which
// its loss balances by the chance to be chosen.
#include "gates/softmax/record.h"

namespace plait {

constexpr GateSpec noisy_topk_gate{.name = "noisy_topk",
                                   .help = "top-k of noisy logits",
                                   .route = &topk_softmax_route,
                                   .keys = {"moe.jitter", "moe.drop", "moe.aux_coef", "moe.z_coef"},
                                   .noise = true,
                                   .loss = AuxLoss::variation};

}  // namespace plait
