// What the system lets this process use: processors, threads and memory, by the machine, the user's limits and the
// control groups that the process is in. `root` stands before every path that is read: tests make up a tree.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "launch/rank_options.h"

namespace plait::launch {

struct Processors {
  std::vector<int> online, allowed;                        // of the machine; that the process may run on
  double quota = std::numeric_limits<double>::infinity();  // processors whose time it may take
  std::string quota_by;                                    // the file that says so

  // Whole ones, at least 1: as many threads of this process compute at once.
  int usable() const;
};
Processors processors(const std::string& root = "");

// The number by which this process counts its threads.
inline int usable_cores(const std::string& root = "") { return processors(root).usable(); }

// What the ranks of this node have together, which a launcher may have bound to some of its own processors each.
Processors processors_of_launcher(const std::string& root = "");

struct Limit {
  std::string by;                                 // the file that says so
  int64_t most = 0, taken = 0;                    // taken: now, by all that count
  enum class Of { node, process } of = Of::node;  // who counts

  int64_t left() const { return std::max<int64_t>(0, most - taken); }
};

// Limits of threads that might not leave `wanted`; of the others, what takes long to count is not counted.
std::vector<Limit> thread_limits(int64_t wanted, const std::string& root = "");

// Of bytes. What the system can give up, such as files that it keeps in memory, is not taken.
std::vector<Limit> memory_limits(const std::string& root = "");

// Those that take from a limit.
inline int64_t ranks_under(const Limit& limit, const RanksHere& here) {
  return limit.of == Limit::Of::node ? here.of_node : here.of_process;
}

// InputError where the threads of these ranks are more than a limit leaves.
void expect_threads(const RankOptions& options, RanksHere here, const std::string& root = "");

}  // namespace plait::launch
