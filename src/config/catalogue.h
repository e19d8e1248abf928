// What a config may name: families of MoE schedules, gates, architectures, ops of one's own. The lists are values that
// are handed down, so that a program adds to the built-in ones without a change in Plait.
#pragma once
#include <vector>

namespace plait {

struct Architecture;
struct ExternalOp;
struct FamilySpec;
struct GateSpec;

// What is pointed to outlives every config that was read with it. The first of a list is what a config gets that names
// none.
struct Catalogue {
  std::vector<const FamilySpec*> families;
  std::vector<const GateSpec*> gates;
  std::vector<const Architecture*> architectures;
  std::vector<const ExternalOp*> ops;
};

// Those of Plait itself.
const Catalogue& built_in();

// As tables list families: the first one, which is the usual one, comes last.
std::vector<const FamilySpec*> usual_last(const Catalogue& catalogue = built_in());

// InputError where two of a list have one name, or a list lacks what a config must name.
void check_catalogue(const Catalogue& catalogue);

}  // namespace plait
