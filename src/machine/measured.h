// What was timed on a machine, and the machine that follows from it.
#pragma once
#include "machine/fit.h"
#include "machine/group_shapes.h"

namespace plait {

struct MeasuredGroup {
  Digits digits;
  std::array<std::vector<MessageSample>, 5> samples = {};  // by Collective
};

struct Measured {
  int ranks = 1;
  int per_node = 1;  // ranks
  std::vector<MeasuredGroup> groups;
  std::vector<PairCost> pairs;
  std::vector<ProductPoint> products;
  double memory_bytes = 1;  // read or written, per second and rank
  double start = 0;         // s from one op to the next
};

// Each group gets its own line. A level, which stands for groups that were not measured, gets the line through the
// samples of all its groups together; one without groups (nodes of one rank) costs what the other one does.
Machine fitted(const Measured& measured);

// The levels of a world: nodes, and the network between them where there are several.
int num_levels(const Measured& measured);
int level_of(const Measured& measured, const Digits& digits);

}  // namespace plait
