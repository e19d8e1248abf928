// What a rank that is a process does around its body: begins MPI, watches, and turns any failure into one report a node
// and the end of all ranks.
#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "base/errors.h"
#include "wire/mpi_watch.h"
#include "wire/run_launched.h"

namespace plait::wire {
namespace {

constexpr int kInputCode = 2, kFailureCode = 1;

void write_all(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(STDERR_FILENO, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += n;
  }
}

// Ends all ranks, once.
class End {
 public:
  explicit End(MpiRuntime& mpi) : mpi_(mpi) {}

  // `report`: with what all ranks of this node were doing. The first rank of a node that fails tells it.
  enum class Tell { line, report };
  [[noreturn]] void now(const std::string& what, Tell tell) {
    static std::mutex once;  // never given back: the process ends
    once.lock();
    RankBoard& mine = mpi_.board(mpi_.rank());
    if (tell == Tell::report) mine.failure.set(what);
    mine.state = RankBoard::State::failed;
    if (mpi_.reported().exchange(1) == 0) {
      std::string text = fmt::format("plait: {}\n", what);
      if (tell == Tell::report) text += report();
      write_all(text);
    }
    const int code = tell == Tell::line ? kInputCode : kFailureCode;
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
  }

 private:
  std::string report() const {
    std::vector<const RankBoard*> boards;
    for (const int rank : mpi_.neighbours()) boards.push_back(&mpi_.board(rank));
    return wire::report(boards, mpi_.neighbours());
  }

  MpiRuntime& mpi_;
};

// A launcher may bind a rank to fewer cores than it has threads. Then it gets its share of the node's.
void widen_affinity(const MpiRuntime& mpi, int threads) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) >= threads) return;
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int ranks = static_cast<int>(mpi.neighbours().size());
  const int place = static_cast<int>(std::ranges::find(mpi.neighbours(), mpi.rank()) - mpi.neighbours().begin());
  const int bound = CPU_COUNT(&set);
  CPU_ZERO(&set);
  const bool enough = ranks * threads <= cores;
  for (int core = 0; core < cores; ++core)
    if (!enough || core / threads == place) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  write_all(
      fmt::format("plait: rank {} may use {} of the {} cores that mesh.threads asks for: start with --bind-to none\n",
                  mpi.rank(), bound, threads));
}

void expect_world(const LocalOptions& options, const MpiRuntime& mpi) {
  if (mpi.size() != options.ranks)
    input_error("the launcher started {} ranks, the mesh has {}: start {} ranks, or change mesh.tp, mesh.ep or mesh.dp",
                mpi.size(), options.ranks, options.ranks);
  const std::vector<int>& here = mpi.neighbours();
  if (here.back() - here.front() + 1 != static_cast<int>(here.size()))
    input_error("node {} has ranks {}: place ranks node by node (mpirun --map-by slot), as meshes count them",
                mpi.node_name(), fmt::join(here, ", "));
  if (options.lanes > 0 && !mpi.threads_may_call())
    input_error("schedule.lanes: this MPI lets only one thread of a rank send (no MPI_THREAD_MULTIPLE)");
}

}  // namespace

void run_launched(const LocalOptions& options, std::function<void(int rank, World& world)> body) {
  MpiRuntime& mpi = MpiRuntime::get();
  MpiWorld world(options, mpi);
  End end(mpi);
  RankBoard& board = mpi.board(mpi.rank());
  board.name.set(world.name(mpi.rank()));
  board.node.set(mpi.node_name());
  board.pid = getpid();
  board.state = RankBoard::State::running;
  const int own_threads = at::get_num_threads();
  try {
    expect_world(options, mpi);
    widen_affinity(mpi, options.threads);
    at::set_num_threads(options.threads);
    const MpiWatch watch(mpi, world, options.timeout,
                         [&](const std::string& what) { end.now(what, End::Tell::report); });
    body(mpi.rank(), world);
    everyone(world, mpi.rank())->barrier();  // whoever does more than the others shows here
    board.state = RankBoard::State::ended;
  } catch (const InputError& error) {
    end.now(error.what(), End::Tell::line);
  } catch (const std::exception& error) {
    end.now(fmt::format("{}: {}", world.name(mpi.rank()), error.what()), End::Tell::report);
  } catch (...) {
    end.now(fmt::format("{}: unknown failure", world.name(mpi.rank())), End::Tell::report);
  }
  at::set_num_threads(own_threads);
}

MpiLibrary mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string line(text, length);
  return {.built = true, .text = line.substr(0, line.find_first_of(",\n"))};
}

}  // namespace plait::wire
