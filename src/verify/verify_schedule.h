// A list against itself on one rank, in float64 and on random data: outputs, the gradients of all its parameters, and
// the parameters that it updates.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "schedule/lanes.h"

namespace plait {

struct ScheduleTrial {
  uint64_t seed = 1;
  std::optional<NodeLanes> lanes = {};  // where messages have threads of their own
  std::string loss = {};                // of a forward list; empty: its first output that is one
};

struct ScheduleReport {
  struct Line {
    std::string what;     // "output %loss", "gradient of %up", "%up after the step"
    double relative = 0;  // max|a - b| / max|b|; infinite where one is not a number
  };
  std::vector<Line> lines;
  double largest() const;
  bool agrees() const { return largest() < 1e-9; }
};

// A forward list is differentiated first, if it has a loss. Ranks are threads of this process. InputError for a list
// that has no form on one rank, leaves of which nothing says what they hold, or nothing to compare.
ScheduleReport verify_schedule(const Schedule& schedule, const ScheduleTrial& trial);

}  // namespace plait
