// What stands in for the wire `mpi` where no MPI was installed when this was built.
#include "base/errors.h"
#include "launch/launch.h"
#include "wire/mpi/run.h"

namespace plait::wire {

void run_mpi(const RankOptions&, RankBody) {
  const Launch launch = this_launch();
  input_error(
      "a launcher started this as rank {} of {}, but it was built without MPI: install libopenmpi-dev and build again",
      launch.rank, launch.ranks);
}

std::string mpi_library() { return "not built in: install openmpi-bin and libopenmpi-dev, then build again"; }

}  // namespace plait::wire
