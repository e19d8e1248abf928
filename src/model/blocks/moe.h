// The mixture-of-experts block.
#pragma once
#include "model/blocks/gate.h"

namespace plait {

// Of the norm, [T, D] as tokens are held between blocks, to what is added to the residual stream: the routed experts,
// then the shared ones.
struct MoeTerms {
  std::vector<ValueId> terms;
  GateSums sums;
};
MoeTerms write_moe(Writer& w, ValueId normed, int64_t layer);

}  // namespace plait
