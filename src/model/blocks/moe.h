// The mixture-of-experts block.
#pragma once
#include "model/blocks/gate.h"

namespace plait {

// Of the norm, [T, D] as tokens are held between blocks, to what is added to the residual stream: the routed experts,
// then the shared ones, each token by a gate of its own where they are gated.
struct MoeTerms {
  std::vector<ValueId> terms;
  GateSums sums;
};
enum class SharedExperts { plain, gated };
struct MoeStyle {
  SharedExperts shared = SharedExperts::plain;
  Biases biases = Biases::none;  // of all experts
};
MoeTerms write_moe(Writer& w, ValueId normed, int64_t layer, const MoeStyle& style);
MoeTerms write_moe(Writer& w, ValueId normed, int64_t layer);

}  // namespace plait
