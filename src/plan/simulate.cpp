#include "plan/simulate.h"

#include <algorithm>

#include "base/errors.h"
#include "passes/order.h"
#include "schedule/lanes.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

// The ranks that a step of a rank waits for: itself, or the group of a move.
std::vector<int> company(const Schedule& schedule, const Step& step, int rank) {
  const Move* move = as<Move>(step.op);
  return move ? schedule.mesh.group(rank, wire_atoms(move->legs)) : std::vector<int>{rank};
}

// When a step may start, rank by rank, as the steps before it end.
class Clock {
 public:
  Clock(const Schedule& schedule, const std::vector<int>& lanes)
      : lanes_(lanes), ended_(schedule.steps.size(), 0), repeat_(schedule.repeat.value_or(Repeat{0, 0, 0})) {
    std::vector<Lane> named;
    for (int lane : lanes) named.push_back(static_cast<Lane>(lane));
    waits_ = lane_rules(schedule, named).waits;
    free_.assign(lanes.empty() ? 1 : 1 + *std::ranges::max_element(lanes), 0);
  }

  // Steps are begun in the issue order.
  struct Start {
    double lane, others;  // when the previous step of its lane has ended; when the rest has that it must follow
  };
  Start start(int step) {
    if (step == repeat_.first || step == repeat_.last) section_ = *std::ranges::max_element(free_);
    Start start{.lane = free_[lanes_[step]], .others = section_};
    for (int before : waits_[step]) start.others = std::max(start.others, ended_[before]);
    return start;
  }

  void finish(int step, double end, double after = 0) {
    free_[lanes_[step]] = end;
    ended_[step] = end + after;
  }

 private:
  const std::vector<int>& lanes_;
  std::vector<std::vector<int>> waits_;
  std::vector<double> free_, ended_;  // by lane; by step, the last time it ran
  Repeat repeat_;
  double section_ = 0;  // when all that stands before this run of the section had ended
};

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
  std::vector<Clock> clocks(rows, Clock(schedule, timing.lanes));
  Timeline timeline;
  std::vector<double> starts(rows);
  for (int place = 0; place < static_cast<int>(order.size()); ++place) {
    const Step& step = schedule.steps[order[place]];
    const int lane = timing.lanes[order[place]];
    for (int r = 0; r < rows; ++r) {
      const Clock::Start start = clocks[r].start(order[place]);
      starts[r] = std::max(start.lane, start.others);
    }
    for (int r = 0; r < rows; ++r) {
      double last = starts[r];
      if (rows > 1)
        for (int q : company(schedule, step, r)) last = std::max(last, starts[q]);
      const double end = last + timing.seconds[r][place];
      const double after = timing.after.empty() ? 0 : timing.after[order[place]];
      clocks[r].finish(order[place], end, after);
      timeline.spans.push_back(
          {.rank = r, .lane = lane, .step = order[place], .place = place, .start = starts[r], .met = last, .end = end});
      timeline.makespan = std::max(timeline.makespan, end + after);
    }
  }
  return timeline;
}

Schedule overlapped(const Schedule& schedule, const Machine& machine, NodeLanes nodes) {
  Pace pace{.lanes = lanes(schedule, nodes.ranks_per_node)};
  for (const StepCost& cost : step_costs(schedule, check(schedule), machine)) pace.seconds.push_back(cost.seconds);
  return reorder(schedule, pace);
}

Timing predicted(const Schedule& schedule, const std::vector<StepCost>& costs, int rows) {
  Timing timing;
  for (const StepCost& cost : costs) timing.lanes.push_back(cost.lane);
  std::vector<double> seconds;
  for (int step : issue_order(schedule)) seconds.push_back(costs[step].seconds);
  timing.seconds.assign(rows, seconds);
  return timing;
}

void find_meetings(const Schedule& schedule, Timeline& timeline) {
  std::vector<std::vector<double>> starts(schedule.mesh.ranks(), std::vector<double>(issue_order(schedule).size(), 0));
  for (const TimeSpan& span : timeline.spans) starts[span.rank][span.place] = span.start;
  for (TimeSpan& span : timeline.spans) {
    span.met = span.start;
    for (int q : company(schedule, schedule.steps[span.step], span.rank))
      span.met = std::max(span.met, starts[q][span.place]);
  }
}

Timing measured(const Schedule& schedule, const Timeline& timeline) {
  const std::vector<int> order = issue_order(schedule);
  const int ranks = schedule.mesh.ranks();
  Timing timing{.lanes = std::vector<int>(schedule.steps.size(), kComputeLane),
                .seconds = std::vector<std::vector<double>>(ranks, std::vector<double>(order.size(), 0))};
  std::vector<std::vector<const TimeSpan*>> spans(ranks, std::vector<const TimeSpan*>(order.size(), nullptr));
  for (const TimeSpan& span : timeline.spans) {
    timing.lanes[span.step] = span.lane;
    spans[span.rank][span.place] = &span;
  }
  // A step that only its own lane kept waiting began, for the rule, when the one before it ended.
  std::vector<std::vector<double>> starts(ranks);
  for (int r = 0; r < ranks; ++r) {
    Clock clock(schedule, timing.lanes);
    for (size_t place = 0; place < order.size(); ++place) {
      expects(spans[r][place], "measured: a span for every step of every rank");
      const Clock::Start start = clock.start(order[place]);
      starts[r].push_back(start.lane >= start.others ? start.lane : spans[r][place]->start);
      clock.finish(order[place], spans[r][place]->end);
    }
  }
  for (int r = 0; r < ranks; ++r)
    for (size_t place = 0; place < order.size(); ++place) {
      double last = 0;
      for (int q : company(schedule, schedule.steps[order[place]], r)) last = std::max(last, starts[q][place]);
      timing.seconds[r][place] = spans[r][place]->end - last;
    }
  return timing;
}

}  // namespace plait
