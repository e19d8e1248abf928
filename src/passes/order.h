// The order of a list: any that keeps every step behind what it reads computes the same bits, so a pass may look for
// one in which messages travel while there is something to compute.
#pragma once
#include "schedule/lanes.h"

namespace plait {

// By step: its lane and how long it takes. Only ratios matter.
struct Pace {
  std::vector<Lane> lanes;
  std::vector<double> seconds;
};

// Without a machine: a product and a message take one second each, anything else none.
Pace even_pace(const Schedule& schedule, int ranks_per_node);

// Performs the list in thought, lane by lane: whenever a lane is free it starts the step that can start first, a
// message before a computation, and among those the one with the longest way to the end of the list. So a product that
// leads to a message goes before one that does not, gradients of weights fill the time in which messages travel, and a
// message leaves as soon as all it carries is there. Keeps data, updates in place and the repeated section. Last of all
// passes.
Schedule reorder(const Schedule& schedule, const Pace& pace);

}  // namespace plait
