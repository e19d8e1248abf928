#include "bench/overlap.h"

#include "schedule/wire_bytes.h"

namespace plait {

Overlap overlap(const Schedule& schedule, const Timeline& timeline) {
  Overlap sum{.step = timeline.makespan, .replayed = simulate(schedule, measured(schedule, timeline)).makespan};
  const double ranks = schedule.mesh.ranks();
  for (const TimeSpan& span : timeline.spans)
    (span.lane == kComputeLane ? sum.compute : sum.wire) += (span.end - span.met) / ranks;
  return sum;
}

double wire_rate(const RecordedSteps& recorded, double share) {
  const Schedule& s = recorded.schedule;
  const Types types = check(s);
  const Item item{.real = s.precision == Precision::mixed ? 2 : 4};
  double bytes = 0, seconds = 0;
  for (int step : issue_order(s)) bytes += wire_cost(s, types, s.steps[step], item).bytes;
  for (const TimeSpan& span : recorded.fastest().spans) {
    const Step& step = s.steps[span.step];
    if (as<Einsum>(step.op) && step.in.size() == 3) seconds += (span.end - span.start) / s.mesh.ranks();
  }
  return bytes / (share * seconds);
}

wire::SlowWorld::Delay delay_of(const WireRates& rates) {
  return [rates](const std::vector<int>& ranks, double bytes) {
    const auto [least, most] = std::ranges::minmax(ranks);
    const bool spans = least / rates.ranks_per_node != most / rates.ranks_per_node;
    return wire::Seconds(bytes / (spans ? rates.inter : rates.intra));
  };
}

}  // namespace plait
