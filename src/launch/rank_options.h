// What the ranks of a run are told, whether they are threads or processes.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <string>

#include "launch/patience.h"

namespace plait::launch {

struct RankOptions {
  int ranks = 1;
  Seconds timeout{300};                       // of every wait
  int threads = 1;                            // compute threads of a rank
  int lanes = 0;                              // threads of a rank that only send
  std::function<std::string(int)> name = {};  // "rank 3 (tp 1, dp 1, ep 1)"; "rank 3" when absent
  int node = 0;                               // processes: so many ranks at most share memory; 0: all of a machine

  std::string name_of(int rank) const { return name ? name(rank) : fmt::format("rank {}", rank); }
};

// How many of the ranks of a run share this node, and this process.
struct RanksHere {
  int64_t of_node = 1, of_process = 1;
};

}  // namespace plait::launch
