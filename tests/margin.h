// How far a gate is from choosing otherwise. What a test expects must not hang on the last bits of a processor: a test
// whose outcome follows from choices asserts that each of them has a margin.
#pragma once
#include <string>

#include "kernels/cpu/gate.h"

namespace plait::kernels {

struct GatedTokens {
  at::Tensor logits_TE, mask_T;  // an undefined mask: all are real
  RouteOptions options;
  GateExtras extras = {};
};

// Empty where every choice has a margin: which experts a token goes to stays the same however the logits move by
// `margin`, up or down each (64 draws), and between the scores of the last route an expert keeps and the first it drops
// there is more than that share of them. Else the first choice that has none. Computed in float64.
std::string near_choice(const GatedTokens& gated, double margin);

}  // namespace plait::kernels
