// Activation checkpointing: what backward reads of a block is made again right before it is read, instead of being kept
// since the forward pass. Communication-aware (DeepSpeed-TED): results of messages are kept, so that none travels
// twice.
#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace plait {

// none: everything is kept. selective: results of products, attention and messages are kept, what is cheap to make from
// them is made again. full: only what enters a block is kept, and the results of messages as `keep` says.
enum class Recompute { none, selective, full };
// Messages whose results are kept: all; all but all_gathers, whose small side is kept and joined again; none.
enum class KeepMoves { all, reduce_and_exchange, none };

// Steps [first, last) of the forward list.
struct Block {
  int first = 0, last = 0;
};

struct RecomputePlan {
  Recompute recompute = Recompute::none;
  KeepMoves keep = KeepMoves::all;
  int num_forward = 0;             // steps [0, num_forward) are the forward list
  std::vector<Block> blocks = {};  // disjoint
};

// After `differentiate`, before `lower`. Gradients are the same bits. Never made again: routes and their places, what
// leaves its block, outputs. Always made again: the gather of a parameter inside a block.
Schedule recompute(const Schedule& schedule, const RecomputePlan& plan);

}  // namespace plait
