// The whole model written plainly on one rank, with ATen's own operations under autograd: what every schedule, layout
// and hand-written backward must equal. Nothing here is shared with the model's code but the sizes.
#pragma once
#include "one_step.h"

namespace plait {

struct ReferenceOutcome {
  double nll = 0, aux = 0, norm = 0;
  Tensors gradients;
  std::vector<std::vector<double>> chosen, kept;  // by MoE layer, over all micro-batches
  double margin = 1;  // the least between the probabilities of what was chosen or kept and of what was not, next to it
};

ReferenceOutcome reference(const ModelSizes& sizes, const Tensors& parameters, const std::vector<Tokens>& micro);

}  // namespace plait
