// What messages cost in this world: each collective in groups of each shape, all parallel groups at once; two messages
// at once; and how they compare with plain copying.
#pragma once
#include <functional>

#include "machine/measured.h"
#include "tune/group_clock.h"

namespace plait {

struct CollectivesRequest {
  int per_node = 1;     // ranks of a node
  int64_t least = 256;  // bytes of a message: of the larger side of one rank; each size is twice the last
  int64_t most = int64_t{4} << 20;
  double slowest = 0.3;                                     // s: a message that would take longer is not tried
  Repeats repeats = {};                                     // of each size
  std::function<void(const std::string& what)> begin = {};  // told at every rank, before each group's collective
};

// How often `begin` is called.
int num_parts(int ranks, const CollectivesRequest& request);
// Sizes of messages, where the largest is not too slow.
int num_sizes(const CollectivesRequest& request);

// `groups` and `pairs`; the same at all ranks.
Measured measure_messages(wire::World& world, GroupClock& clock, const CollectivesRequest& request);

// A collective between ranks 0 and 1 beside what a copy of as many bytes takes on both at the same time; the fastest of
// several turns.
struct CopyTurn {
  Collective kind;
  int64_t bytes = 0;  // that each of the two ranks writes
  double seconds = 0, copy_seconds = 0;
  double share() const { return copy_seconds / seconds; }
};
std::vector<CopyTurn> compare_with_copies(wire::World& world, GroupClock& clock, const std::vector<int64_t>& sizes);

}  // namespace plait
