#include "launch/watch.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "base/stop.h"

namespace plait::launch {
namespace {

constexpr std::chrono::milliseconds kLook{40};
constexpr double kSettle = 0.15;  // s after a death in which the others come to where they wait for it
constexpr double kGrace = 0.5;    // s that a rank which was told to end waits in silence; launchers kill it after one
constexpr double kLate = 5;       // s after the deadline at which a wait that has none is ended

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
    : process_(process), options_(options), on_fault_(std::move(on_fault)), awake_since_(board_seconds()) {
  if (!stop::Signals::noted()) signals_.emplace(stop::Signals::Repeats::end_after_a_second);
  thread_ = std::thread([this] { serve(); });
}

Watch::~Watch() {
  ending_ = true;
  thread_.join();
}

void Watch::serve() {
  for (double looked = board_seconds(); !ending_; looked = board_seconds()) {
    std::this_thread::sleep_for(kLook);
    if (board_seconds() - looked > Deadline::kPause.count()) awake_since_ = board_seconds();
    if (stop::requested()) told_to_end();
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
    if (sends) longest = std::max(longest, board_seconds() - std::max(awake_since_, open->began.load()));
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
  return {};
}

void Watch::told_to_end() {
  if (told_to_end_ == 0) told_to_end_ = board_seconds();
  if (board_seconds() - told_to_end_ < kGrace) return;
  if (!told_wait_ && longest_wait() > kGrace) tell_wait();
  if (signals_ && dead_neighbour().empty()) _exit(stop::code_of(stop::requested()));
}

void Watch::tell_wait() {
  told_wait_ = true;
  const bool all_here = process_.neighbours.size() == static_cast<size_t>(process_.ranks);
  if (all_here) return;
  const RankBoard* mine = &process_.board();
  const std::string text = fmt::format("plait: {} was told to end ({}), and waits\n{}", options_.name_of(process_.rank),
                                       stop::name(stop::requested()), report({&mine, 1}, {&process_.rank, 1}));
  std::fputs(text.c_str(), stderr);
}

}  // namespace plait::launch
