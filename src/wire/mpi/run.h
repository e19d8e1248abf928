// This process's one rank, over MPI and the memory of its node; see wire/ranks.h. Built without MPI it is an
// InputError.
#pragma once
#include "wire/rank_body.h"

namespace plait::wire {

void run_mpi(const RankOptions& options, RankBody body);

// "Open MPI v4.1.4", or what is missing.
std::string mpi_library();

}  // namespace plait::wire
