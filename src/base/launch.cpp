#include "base/launch.h"

#include <cstdlib>

namespace plait {
namespace {

struct Place {
  bool launched = false;
  int rank = 0, size = 1, node = 0;
};

// Open MPI, MPICH (and srun --mpi=pmi2), srun --mpi=pmix. What Slurm tells of nodes may be a list, "2(x3),1": its first
// number counts.
Place find() {
  constexpr const char* kNames[][3] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                       {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
                                       {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"}};
  for (const auto& [rank, size, node] : kNames) {
    const char *r = std::getenv(rank), *n = std::getenv(size), *l = std::getenv(node);
    if (r && n) return {true, std::atoi(r), std::atoi(n), l ? std::atoi(l) : 0};
  }
  return {};
}

const Place& place() {
  static const Place found = find();
  return found;
}

}  // namespace

bool launched() { return place().launched; }
int launched_rank() { return place().rank; }
int launched_size() { return place().size; }
int launched_node_size() { return place().node; }

}  // namespace plait
