#include "tune/group_clock.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <future>

#include "base/statistics.h"
#include "machine/fit.h"
#include "run/timings.h"

namespace plait {
namespace {

constexpr int kMostCalls = 1 << 14;

}  // namespace

GroupClock::GroupClock(int rank, wire::World& world) : rank_(rank), everyone_(wire::everyone(world, rank)) {}

double GroupClock::agreed(double value) {
  const at::Tensor all = at::empty({ranks()}, at::kDouble);
  everyone_->all_gather(at::full({}, value, at::kDouble), all);
  const double* values = all.const_data_ptr<double>();
  return *std::max_element(values, values + ranks());
}

double GroupClock::seconds(int calls, const std::function<void()>& work) {
  const Stretch s = together(*everyone_, [&] {
    for (int i = 0; i < calls; ++i) work();
  });
  return agreed(ms(s.end - s.begin)) / 1e3 / calls;
}

double GroupClock::median(const std::function<void()>& work, Repeats repeats) {
  return plait::median(in_turns({work}, repeats).front());
}

std::vector<std::vector<double>> GroupClock::in_turns(const std::vector<std::function<void()>>& works,
                                                      Repeats repeats) {
  std::vector<int> calls;
  double spent = 0;
  for (const auto& work : works) {
    double once = seconds(1, work);
    spent += once;
    if (once < repeats.row) once = std::min(once, seconds(1, work));  // the first one also warms up
    calls.push_back(std::clamp(static_cast<int>(std::ceil(repeats.row / once)), 1, kMostCalls));
  }
  std::vector<std::vector<double>> times(works.size());
  for (int turn = 0; turn < repeats.least || (turn < repeats.most && spent < repeats.seconds); ++turn)
    for (size_t i = 0; i < works.size(); ++i) {
      times[i].push_back(seconds(calls[i], works[i]));
      spent += times[i].back() * calls[i];
    }
  return times;
}

void at_once(wire::World& world, const std::function<void()>& first, const std::function<void()>& second) {
  const auto guarded = [&world](const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      world.fail();
      throw;
    }
  };
  std::future<void> other = std::async(std::launch::async, [&] { guarded(second); });
  guarded(first);
  other.get();
}

}  // namespace plait
