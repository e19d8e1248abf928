// Which wire carries the ranks of a run: the one place where wires are chosen.
#include "wire/ranks.h"

#include "launch/launch.h"
#include "launch/limits.h"
#include "wire/local/run.h"
#include "wire/mpi/run.h"

namespace plait::wire {

void each_rank(const RankOptions& options, RankBody body) {
  const Launch launch = this_launch();
  const bool processes = launch.launched() && (options.ranks > 1 || launch.ranks == 1);
  launch.expect_ranks(options.ranks);
  launch::expect_threads(options, launch.ranks_here(options.ranks));
  (processes ? run_mpi : run_threads)(options, std::move(body));
}

}  // namespace plait::wire
