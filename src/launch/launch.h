// Whether a launcher (mpirun, srun) started this process as one rank of several, by what it put into the environment.
#pragma once
#include <algorithm>
#include <functional>

#include "launch/rank_options.h"

namespace plait {

struct Launch {
  int ranks = 0;           // of the world; 0: no launcher, ranks are threads of this process
  int rank = 0;            // this one
  int ranks_per_node = 0;  // 0: not told
  int cores = 0;           // that the ranks of this node may use together; 0: not told

  bool launched() const { return ranks > 0; }
  bool first() const { return rank == 0; }  // who speaks for all

  // Of a run of so many. Where the launcher does not tell of nodes, this one has a node of its own.
  launch::RanksHere ranks_here(int64_t all) const {
    return launched() ? launch::RanksHere{std::max(1, ranks_per_node), 1} : launch::RanksHere{all, all};
  }

  // InputError where a launcher started another number of ranks than a run needs. One rank may be run by every process
  // for itself.
  void expect_ranks(int64_t needed) const;
};

// variable(name): its text, or null.
Launch launch_of(const std::function<const char*(const char*)>& variable);

// Of this process, with its cores.
Launch this_launch();

}  // namespace plait
