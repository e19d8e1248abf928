// The seconds of every step of a schedule on a machine, from its types alone (rows at their expected number).
#pragma once
#include "machine/machine.h"
#include "schedule/schedule.h"

namespace plait {

// The lane of ops; a move takes lane 1 + l, l the slowest level of the network that it crosses.
inline constexpr int kComputeLane = 0;

// How many rows the busiest rank's experts get, as a multiple of the mean; it is the one that others wait for.
struct LoadProfile {
  double busiest = 1;
};

struct StepCost {
  int lane = kComputeLane;
  double flops = 0;                      // of matrix products and attention, on one rank
  double memory_bytes = 0;               // read and written by one rank; a move that sends counts none
  double wire_bytes = 0;                 // sent by one rank, all levels together
  double copied_bytes = 0;               // of a message, packed before or unpacked after it
  int ranks = 1;                         // of the group that a move meets
  std::vector<double> level_bytes = {};  // by level: where the wire_bytes go
  double seconds = 0;
};

// What the traits of an op say (schedule/traits.h): its arithmetic, or memory where that is slower. Products run at the
// rate of the nearest measured ones. What only renames (split, unflatten, flatten, and the moves enter, slice and part)
// is free.
// A message: as measured for groups of its shape. Where none was, level by level, one after the other: an all_to_all
// over several atoms sends to each level the share of its ranks that lie there; in any other collective all bytes cross
// the slowest level. Parts that do not lie in order are copied before or after, at the speed of memory.
// With a load profile, rows that stand at their experts count for the busiest rank.
std::vector<StepCost> step_costs(const Schedule& schedule, const Types& types, const Machine& machine,
                                 const LoadProfile& load = {});

}  // namespace plait
