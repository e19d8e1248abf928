// The semantics of time: a step starts when the previous step of its lane and those it must follow on other lanes
// (`lane_rules`) have ended, a repeat of a section when the one before has; a move ends its seconds after the last rank
// of its group has started it. With predicted seconds a prediction; with measured ones the measured run.
#pragma once
#include "plan/cost.h"
#include "schedule/lanes.h"

namespace plait {

// The indices of a list's steps in the order in which every rank issues them: a repeated section as often as it runs.
std::vector<int> issue_order(const Schedule& schedule);

struct TimeSpan {
  int rank = 0, lane = 0;
  int step = 0;                        // index in the list
  int place = 0;                       // in the issue order
  double start = 0, met = 0, end = 0;  // s; met: when the last of its group had started too
  bool operator==(const TimeSpan&) const = default;
};

struct Timeline {
  std::vector<TimeSpan> spans;  // by place, then rank
  double makespan = 0;
};

struct Timing {
  std::vector<int> lanes;  // by step
  // seconds[rank][place]. One row alone: all ranks are alike, and the timeline is that of rank 0.
  std::vector<std::vector<double>> seconds;
  // By step: s from its end until other lanes may use what it made; its own lane goes on at once. Empty: nothing.
  std::vector<double> after = {};
};

// REQUIRES a lane for each step, and as many seconds in each row as the issue order is long.
Timeline simulate(const Schedule& schedule, const Timing& timing);

// The list in the order that overlaps best on this machine, its messages on lanes (see passes/order.h).
Schedule overlapped(const Schedule& schedule, const Machine& machine, NodeLanes nodes);

// Predicted; `rows` 1, or one for each rank.
Timing predicted(const Schedule& schedule, const std::vector<StepCost>& costs, int rows = 1);

// What each step of a recorded timeline of all ranks took by itself: without waiting for its group, and with the time
// since the previous step of its lane where it waited for nothing else.
Timing measured(const Schedule& schedule, const Timeline& timeline);

// Fills `met`.
void find_meetings(const Schedule& schedule, Timeline& timeline);

}  // namespace plait
