// The one rank that this process is, over MPI; see ranks.h. Built without MPI it is an InputError.
#pragma once
#include <functional>

#include "wire/local.h"

namespace plait::wire {

void run_launched(const LocalOptions& options, std::function<void(int rank, World& world)> body);

// "Open MPI v4.1.4, ..." or what is missing.
struct MpiLibrary {
  bool built = false;
  std::string text;
};
MpiLibrary mpi_library();

}  // namespace plait::wire
