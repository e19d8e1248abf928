#include "launch/watch.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace plait::launch {
namespace {

constexpr std::chrono::milliseconds kLook{40};
constexpr double kSettle = 0.15;  // s after a death in which the others come to where they wait for it
constexpr double kGrace =
    0.25;                    // s that a rank which was told to end may go on; the launcher kills it after one second
constexpr double kLate = 5;  // s after the deadline at which a wait that has none is ended

std::atomic<bool> terminated = false;
struct sigaction before;

// Whoever else wants to know of the signal is told as if this were not here.
void on_terminate(int signal) {
  terminated = true;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(signal);
}

void catch_terminate() {
  struct sigaction now = {};
  sigaction(SIGTERM, nullptr, &before);
  if (before.sa_handler == on_terminate) return;
  now.sa_handler = on_terminate;
  now.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &now, nullptr);
}

bool is_dead(int pid) {
  if (kill(pid, 0) != 0) return errno == ESRCH;
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'Z';
}

}  // namespace

Watch::Watch(const Process& process, const RankOptions& options, std::function<void(const std::string&)> on_fault)
    : process_(process), options_(options), on_fault_(std::move(on_fault)) {
  catch_terminate();
  thread_ = std::thread([this] { serve(); });
}

Watch::~Watch() {
  ending_ = true;
  thread_.join();
  sigaction(SIGTERM, &before, nullptr);
}

void Watch::serve() {
  while (!ending_) {
    std::this_thread::sleep_for(kLook);
    if (const std::string what = fault(); !what.empty() && !ending_) on_fault_(what);
  }
}

std::string Watch::dead_neighbour() const {
  for (size_t i = 0; i < process_.neighbours.size(); ++i) {
    const int rank = process_.neighbours[i];
    const RankBoard& board = *process_.boards[i];
    const int pid = board.pid;
    if (rank == process_.rank || pid == 0 || board.state != RankBoard::State::running) continue;
    if (is_dead(pid)) return fmt::format("{} has died (process {} is gone)", options_.name_of(rank), pid);
  }
  return {};
}

double Watch::longest_wait() const {
  double longest = 0;
  for (const LaneBoard& lane : process_.board().lanes) {
    const BoardEntry* open = lane.open();
    if (!open) continue;
    const bool sends = !open->group.get().empty() || open->step.get().starts_with(kConnecting);
    if (sends) longest = std::max(longest, board_seconds() - open->began);
  }
  return longest;
}

std::string Watch::fault() {
  if (std::string dead = dead_neighbour(); !dead.empty()) {
    if (saw_death_ == 0) saw_death_ = board_seconds();
    return board_seconds() - saw_death_ > kSettle ? dead : "";
  }
  if (const double wait = longest_wait(); wait > options_.timeout.count() + kLate)
    return fmt::format("{} waits for {:.0f} s in a call that has no deadline", options_.name_of(process_.rank), wait);
  if (!terminated) return {};
  if (told_to_end_ == 0) told_to_end_ = board_seconds();
  const double since = board_seconds() - told_to_end_;
  const bool heard = before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN;
  if (since > kGrace && (!heard || longest_wait() > kGrace))
    return fmt::format("{} was told to end (SIGTERM): another rank has ended", options_.name_of(process_.rank));
  return {};
}

}  // namespace plait::launch
