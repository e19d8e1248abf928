#include "launch/launch.h"

#include <cstdlib>

#include "base/errors.h"
#include "launch/limits.h"

namespace plait {

void Launch::expect_ranks(int64_t needed) const {
  if (!launched() || ranks == needed || needed == 1) return;
  input_error("{} rank{} started, {} needed: start {} (mpirun -n {}), or change mesh.tp, mesh.ep or mesh.dp", ranks,
              ranks == 1 ? "" : "s", needed, needed, needed);
}

// Open MPI, MPICH (and srun --mpi=pmi2), srun --mpi=pmix. What Slurm tells of nodes may be a list, "2(x3),1": its first
// number counts.
Launch launch_of(const std::function<const char*(const char*)>& variable) {
  constexpr const char* kNames[][3] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                       {"PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"},
                                       {"SLURM_STEP_NUM_TASKS", "PMIX_RANK", "SLURM_STEP_TASKS_PER_NODE"}};
  for (const auto& [ranks, rank, per_node] : kNames) {
    const char *n = variable(ranks), *r = variable(rank), *node = variable(per_node);
    if (r && n) return {.ranks = std::atoi(n), .rank = std::atoi(r), .ranks_per_node = node ? std::atoi(node) : 0};
  }
  return {};
}

Launch this_launch() {
  Launch launch = launch_of([](const char* name) { return std::getenv(name); });
  if (launch.launched()) launch.cores = launch::processors_of_launcher().usable();
  return launch;
}

}  // namespace plait
