// What stands in for the wire `mpi` where no MPI was installed when this was built.
#include "base/errors.h"
#include "base/launch.h"
#include "wire/run_launched.h"

namespace plait::wire {

void run_launched(const LocalOptions&, std::function<void(int rank, World& world)>) {
  input_error(
      "a launcher started this as rank {} of {}, but it was built without MPI: install libopenmpi-dev and build again",
      launched_rank(), launched_size());
}

MpiLibrary mpi_library() { return {.text = "not built in: install openmpi-bin and libopenmpi-dev, then build again"}; }

}  // namespace plait::wire
