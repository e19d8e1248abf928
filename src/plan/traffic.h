// What a training step sends: messages, bytes and seconds, by kind of collective and level of the network.
#pragma once
#include "plan/cost.h"

namespace plait {

struct Traffic {
  Collective collective = Collective::none;
  int level = 0;         // of the machine
  int64_t messages = 0;  // that a rank takes part in, each counted at the slowest level that it crosses
  double bytes = 0;      // that a rank sends there
  double seconds = 0;    // of those messages, one after another
};

// By collective, then level; a repeated section counts as often as it runs. Rows at their expected number.
std::vector<Traffic> traffic(const Schedule& schedule, const std::vector<StepCost>& costs);

}  // namespace plait
