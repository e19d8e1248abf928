#include "plan/traffic.h"

#include <map>

#include "plan/simulate.h"

namespace plait {

std::vector<Traffic> traffic(const Schedule& schedule, const std::vector<StepCost>& costs) {
  std::map<std::pair<Collective, int>, Traffic> all;
  const auto at = [&](Collective kind, size_t level) -> Traffic& {
    Traffic& t = all[{kind, static_cast<int>(level)}];
    t.collective = kind, t.level = static_cast<int>(level);
    return t;
  };
  for (int step : issue_order(schedule)) {
    const StepCost& cost = costs[static_cast<size_t>(step)];
    if (cost.lane == kComputeLane) continue;
    const Collective kind = collective(std::get<Move>(schedule.steps[static_cast<size_t>(step)].op).legs);
    Traffic& slowest = at(kind, static_cast<size_t>(cost.lane - 1));
    ++slowest.messages;
    slowest.seconds += cost.seconds;
    for (size_t level = 0; level < cost.level_bytes.size(); ++level)
      if (cost.level_bytes[level] > 0) at(kind, level).bytes += cost.level_bytes[level];
  }
  std::vector<Traffic> sorted;
  for (const auto& [place, t] : all) sorted.push_back(t);
  return sorted;
}

}  // namespace plait
