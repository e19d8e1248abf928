// What a config may name: families of MoE schedules, gates, architectures, ops of one's own. The lists are values that
// are handed down, so that a program adds to the built-in ones without a change in Plait.
#pragma once
#include <vector>

namespace plait {

struct Architecture;
struct ExternalOp;
struct FamilySpec;
struct GateSpec;

// No two of a list have one name. What is pointed to outlives every config that was read with it.
struct Catalogue {
  std::vector<const FamilySpec*> families;
  std::vector<const GateSpec*> gates;
  std::vector<const Architecture*> architectures;
  std::vector<const ExternalOp*> ops;
};

// Those of Plait itself.
const Catalogue& built_in();

}  // namespace plait
