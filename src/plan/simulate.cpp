#include "plan/simulate.h"

#include <algorithm>

#include "base/errors.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

// The ranks that a step of a rank waits for: itself, or the group of a move.
std::vector<int> company(const Schedule& schedule, const Step& step, int rank) {
  const Move* move = as<Move>(step.op);
  return move ? schedule.mesh.group(rank, wire_atoms(move->legs)) : std::vector<int>{rank};
}

struct Clock {
  std::vector<double> ready;  // by value: when it is written
  std::vector<double> free;   // by lane: when its last step ends
};

double start_of(const Clock& clock, const Step& step, int lane) {
  double start = clock.free[lane];
  for (ValueId v : step.in) start = std::max(start, clock.ready[v]);
  return start;
}

void finish(Clock& clock, const Step& step, int lane, double end) {
  clock.free[lane] = end;
  for (ValueId v : step.out) clock.ready[v] = end;
}

}  // namespace

std::vector<int> issue_order(const Schedule& schedule) {
  std::vector<int> order;
  const int n = static_cast<int>(schedule.steps.size());
  const Repeat repeat = schedule.repeat.value_or(Repeat{});
  for (int i = 0; i < repeat.first; ++i) order.push_back(i);
  for (int t = 0; t < repeat.times; ++t)
    for (int i = repeat.first; i < repeat.last; ++i) order.push_back(i);
  for (int i = repeat.last; i < n; ++i) order.push_back(i);
  return order;
}

Timeline simulate(const Schedule& schedule, const Timing& timing) {
  const std::vector<int> order = issue_order(schedule);
  const int rows = static_cast<int>(timing.seconds.size());
  expects(rows == 1 || rows == schedule.mesh.ranks(), "simulate: seconds for one rank or for all");
  expects(timing.lanes.size() == schedule.steps.size(), "simulate: a lane for each step");
  for (const auto& row : timing.seconds) expects(row.size() == order.size(), "simulate: seconds for each step issued");
  const int lanes = timing.lanes.empty() ? 1 : 1 + *std::ranges::max_element(timing.lanes);
  std::vector<Clock> clocks(
      rows, {.ready = std::vector<double>(schedule.names.size(), 0), .free = std::vector<double>(lanes, 0)});
  Timeline timeline;
  std::vector<double> starts(rows);
  for (int place = 0; place < static_cast<int>(order.size()); ++place) {
    const Step& step = schedule.steps[order[place]];
    const int lane = timing.lanes[order[place]];
    for (int r = 0; r < rows; ++r) starts[r] = start_of(clocks[r], step, lane);
    for (int r = 0; r < rows; ++r) {
      double last = starts[r];
      if (rows > 1)
        for (int q : company(schedule, step, r)) last = std::max(last, starts[q]);
      const double end = last + timing.seconds[r][place];
      finish(clocks[r], step, lane, end);
      timeline.spans.push_back(
          {.rank = r, .lane = lane, .step = order[place], .place = place, .start = starts[r], .end = end});
      timeline.makespan = std::max(timeline.makespan, end);
    }
  }
  return timeline;
}

Timing predicted(const Schedule& schedule, const std::vector<StepCost>& costs, int rows) {
  Timing timing;
  for (const StepCost& cost : costs) timing.lanes.push_back(cost.lane);
  std::vector<double> seconds;
  for (int step : issue_order(schedule)) seconds.push_back(costs[step].seconds);
  timing.seconds.assign(rows, seconds);
  return timing;
}

Timing measured(const Schedule& schedule, const Timeline& timeline) {
  const size_t places = issue_order(schedule).size();
  const int ranks = schedule.mesh.ranks();
  std::vector<std::vector<double>> starts(ranks, std::vector<double>(places, 0));
  for (const TimeSpan& span : timeline.spans) starts[span.rank][span.place] = span.start;
  Timing timing{.lanes = std::vector<int>(schedule.steps.size(), kComputeLane),
                .seconds = std::vector<std::vector<double>>(ranks, std::vector<double>(places, 0))};
  for (const TimeSpan& span : timeline.spans) {
    double last = 0;
    for (int q : company(schedule, schedule.steps[span.step], span.rank)) last = std::max(last, starts[q][span.place]);
    timing.seconds[span.rank][span.place] = span.end - last;
    timing.lanes[span.step] = span.lane;
  }
  return timing;
}

}  // namespace plait
