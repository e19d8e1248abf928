#include "launch/run_process.h"

#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/errors.h"
#include "base/stop.h"
#include "launch/launch.h"
#include "launch/limits.h"
#include "launch/watch.h"

namespace plait::launch {
namespace {

void write_all(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(STDERR_FILENO, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += n;
  }
}

// Ends all ranks, once. `report`: with what all ranks of this node were doing. The first rank of a node that fails
// tells it.
enum class Tell { line, report };
struct Ending {
  Tell tell;
  int code;
};
constexpr Ending kInput{Tell::line, 2}, kFailure{Tell::report, 1};
[[noreturn]] void end_all(const Process& process, const std::string& what, Ending ending) {
  static std::mutex once;  // never given back: the process ends
  once.lock();
  RankBoard& mine = process.board();
  if (ending.tell == Tell::report) mine.failure.set(what);
  mine.state = RankBoard::State::failed;
  if (process.reported->exchange(1) == 0) {
    std::string text = fmt::format("plait: {}\n", what);
    const std::vector<const RankBoard*> boards(process.boards.begin(), process.boards.end());
    if (ending.tell == Tell::report) text += report(boards, process.neighbours);
    write_all(text);
  }
  process.abort(ending.code);
  _exit(ending.code);
}

// A launcher may bind a rank to fewer cores than it has threads. Then it gets its share of what the launcher may use.
void widen_affinity(const Process& process, int threads) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) >= threads) return;
  const std::vector<int> cores = processors_of_launcher().allowed;
  const size_t ranks = process.neighbours.size(), share = static_cast<size_t>(threads);
  const int bound = CPU_COUNT(&set);
  CPU_ZERO(&set);
  const bool enough = ranks * share <= cores.size();
  for (size_t i = 0; i < cores.size(); ++i)
    if (!enough || i / share == process.place()) CPU_SET(cores[i], &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return;
  write_all(
      fmt::format("plait: rank {} may use {} of the {} cores that mesh.threads asks for: start with --bind-to none\n",
                  process.rank, bound, threads));
}

void expect_world(const Process& process, const RankOptions& options) {
  Launch{.ranks = process.ranks}.expect_ranks(options.ranks);
  const std::vector<int>& here = process.neighbours;
  if (here.back() - here.front() + 1 != static_cast<int>(here.size()))
    input_error("node {} has ranks {}: place ranks node by node (mpirun --map-by slot), as meshes count them",
                process.node, fmt::join(here, ", "));
  if (options.lanes > 0 && !process.one_sender.empty()) input_error("schedule.lanes: {}", process.one_sender);
}

void sign_board(const Process& process, const RankOptions& options) {
  RankBoard& board = process.board();
  board.name.set(options.name_of(process.rank));
  board.node.set(process.node);
  board.pid = getpid();
  board.state = RankBoard::State::running;
}

}  // namespace

void run_process(const Process& process, const RankOptions& options, const std::function<void()>& body) {
  sign_board(process, options);
  try {
    expect_world(process, options);
    widen_affinity(process, options.threads);
    const Watch watch(process, options, [&](const std::string& what) { end_all(process, what, kFailure); });
    body();
    process.board().state = RankBoard::State::ended;
  } catch (const InputError& error) {
    end_all(process, error.what(), kInput);
  } catch (const stop::Stopped& stopped) {
    end_all(process, stopped.what(), {Tell::line, stop::code_of(stopped.signal)});
  } catch (const std::exception& error) {
    end_all(process, fmt::format("{}: {}", options.name_of(process.rank), error.what()), kFailure);
  } catch (...) {
    end_all(process, fmt::format("{}: unknown failure", options.name_of(process.rank)), kFailure);
  }
}

}  // namespace plait::launch
