// How much of the time of messages hides behind computing, on a wire that is slowed on purpose.
#pragma once
#include <algorithm>

#include "bench/measure.h"

namespace plait {

// Seconds of one recorded step, means over the ranks.
struct Overlap {
  double step = 0;      // from the first begin to the last end
  double compute = 0;   // in the steps of the compute lane
  double wire = 0;      // in messages, from when the last of the group came
  double replayed = 0;  // the makespan of the step's spans played again by the rule of lanes
  double hideable() const { return std::min(compute, wire); }
  // What the step is shorter than its parts one after another; waiting that nobody's work explains counts against it.
  double hidden() const { return compute + wire - step; }
};
Overlap overlap(const Schedule& schedule, const Timeline& timeline);

// Bytes a second of a wire on which a rank's messages take this share of the time of its experts' products, from a
// recorded dropless step on a fast wire. At 2/3 they take as long as the products in the forward pass; backward has
// twice the products, and as many messages.
double wire_rate(const RecordedSteps& recorded, double share);

// A message takes its bytes / rate; `inter` where its group spans several nodes.
struct WireRates {
  double intra, inter;
  int ranks_per_node;
};
wire::SlowWorld::Delay delay_of(const WireRates& rates);

}  // namespace plait
