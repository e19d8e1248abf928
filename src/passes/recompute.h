// Activation checkpointing: what backward reads of a block is made again right before it is read, instead of being kept
// since the forward pass. Communication-aware (DeepSpeed-TED): results of messages are kept, so that none travels
// twice.
#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace plait {

// Steps [first, last) of the forward list.
struct StepBlock {
  int first = 0, last = 0;
};

struct RecomputePlan {
  Recompute recompute = Recompute::none;
  KeepMoves keep = KeepMoves::all;
  int num_forward = 0;                 // steps [0, num_forward) are the forward list
  std::vector<StepBlock> blocks = {};  // disjoint
};

// After `differentiate`, before `lower`. Gradients are the same bits. Never made again: routes and their places, what
// leaves its block, outputs. Always made again, even where nothing else is: a parameter that its block gathers.
Schedule recompute(const Schedule& schedule, const RecomputePlan& plan);

}  // namespace plait
