#include "base/stop.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace plait::stop {

const int signals[kSignals] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGPIPE};

namespace {

std::atomic<int> first = 0;
std::atomic<int64_t> first_at = 0;      // ns of the monotonic clock
std::atomic<int64_t> repeats_from = 0;  // ns after the first in which others are the same wish
std::array<struct sigaction, kSignals> before;
std::atomic<int> alive = 0;  // Signals
thread_local int leaving = 0;

int64_t now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void on_signal(int signal) {
  int none = 0;
  if (first.compare_exchange_strong(none, signal)) {
    first_at = now();
    return;
  }
  if (signal == SIGPIPE || now() - first_at < repeats_from) return;
  _exit(code_of(signal));
}

}  // namespace

std::string_view name(int signal) {
  constexpr std::string_view names[kSignals] = {"SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP", "SIGPIPE"};
  const auto at = std::ranges::find(signals, signal);
  return at == std::end(signals) ? "a signal" : names[at - std::begin(signals)];
}

Stopped::Stopped(int signal)
    : std::runtime_error(fmt::format("told to end ({}) before there was anything to save", name(signal))),
      signal(signal) {}

Signals::Signals(Repeats repeats) {
  repeats_from = repeats == Repeats::end_at_once ? 0 : 1'000'000'000;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int i = 0; i < kSignals; ++i) sigaction(signals[i], &action, &before[i]);
  ++alive;
}

Signals::~Signals() {
  for (int i = 0; i < kSignals; ++i) sigaction(signals[i], &before[i], nullptr);
  --alive;
}

bool Signals::noted() { return alive > 0; }

int requested() { return first.load(std::memory_order_relaxed); }

void request(int signal) { first = signal; }

void forget() { first = 0; }

void point() {
  if (const int signal = requested(); signal != 0 && leaving > 0) throw Stopped(signal);
}

Leaving::Leaving() { ++leaving; }
Leaving::~Leaving() { --leaving; }

}  // namespace plait::stop
