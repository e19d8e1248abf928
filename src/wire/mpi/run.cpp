#include "wire/mpi/run.h"

#include <ATen/Parallel.h>

#include "launch/run_process.h"
#include "wire/mpi/world.h"

namespace plait::wire {
namespace {

launch::Process process_of(MpiRuntime& mpi) {
  launch::Process process{.rank = mpi.rank(),
                          .ranks = mpi.size(),
                          .node = mpi.node_name(),
                          .neighbours = mpi.neighbours(),
                          .reported = &mpi.reported(),
                          .abort = [](int code) { MPI_Abort(MPI_COMM_WORLD, code); }};
  for (const int rank : process.neighbours) process.boards.push_back(&mpi.board(rank));
  if (!mpi.threads_may_call())
    process.one_sender = "this MPI lets only one thread of a rank send (no MPI_THREAD_MULTIPLE)";
  return process;
}

}  // namespace

void run_mpi(const RankOptions& options, RankBody body) {
  MpiRuntime& mpi = MpiRuntime::get();
  MpiWorld world(options, mpi);
  const int own_threads = at::get_num_threads();
  launch::run_process(process_of(mpi), options, [&] {
    at::set_num_threads(options.threads);
    body(mpi.rank(), world);
    everyone(world, mpi.rank())->barrier();  // whoever does more than the others shows here
  });
  at::set_num_threads(own_threads);
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string line(text, length);
  return line.substr(0, line.find_first_of(",\n"));
}

}  // namespace plait::wire
