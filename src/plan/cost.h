// The seconds of every step of a schedule on a machine, from its types alone (rows at their expected number).
#pragma once
#include "plan/machine.h"
#include "schedule/schedule.h"

namespace plait {

// The lane of ops; a move takes lane 1 + l, l the slowest level of the network that it crosses.
inline constexpr int kComputeLane = 0;

struct StepCost {
  int lane = kComputeLane;
  double flops = 0;                      // of matrix products and attention, on one rank
  double memory_bytes = 0;               // read and written by one rank; a move that sends counts none
  double wire_bytes = 0;                 // sent by one rank, all levels together
  int ranks = 1;                         // of the group that a move meets
  std::vector<double> level_bytes = {};  // by level: where the wire_bytes go
  double seconds = 0;
};

// Products and attention: the slower of flops and memory. Other ops: memory. What only renames (split, unflatten,
// flatten, and the moves enter, slice and part) is free.
// A message is priced level by level, one after the other: an all_to_all over several atoms sends to each level the
// share of its ranks that lie there; in any other collective all bytes cross the slowest level.
std::vector<StepCost> step_costs(const Schedule& schedule, const Types& types, const Machine& machine);

}  // namespace plait
