#include "train/explain.h"

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "base/statistics.h"
#include "plan/choose.h"
#include "run/profile.h"
#include "schedule/wire_bytes.h"
#include "train/texts.h"

namespace plait {
namespace {

double seconds(const Span& span) { return std::chrono::duration<double>(span.end - span.begin).count(); }

// What the last one of each rank's group saw: the shortest time.
double shortest_in_group(const Schedule& schedule, const Step& step, const std::vector<double>& by_rank, int rank) {
  const Move* move = as<Move>(step.op);
  double least = by_rank[rank];
  if (!move || collective(move->legs) == Collective::none) return least;
  for (int member : schedule.mesh.group(rank, wire_atoms(move->legs))) least = std::min(least, by_rank[member]);
  return least;
}

}  // namespace

void StepWatch::begin() { std::ranges::fill(now_, 0); }

void StepWatch::note(const Span& span) { now_[static_cast<size_t>(span.step)] += seconds(span); }

void StepWatch::end() {
  for (size_t i = 0; i < now_.size(); ++i) all_[i].push_back(now_[i]);
  ++runs_;
}

std::vector<double> StepWatch::medians() const {
  expects(runs_ > 0, "medians: nothing was measured");
  std::vector<double> medians;
  for (const std::vector<double>& times : all_) medians.push_back(median(times));
  return medians;
}

Explanation explain(const Schedule& schedule, const Machine& machine, std::optional<NodeLanes> lanes,
                    const LoadProfile& load) {
  const std::vector<StepCost> costs = step_costs(schedule, check(schedule), machine, load);
  std::map<std::string, ExplainedKind> kinds;
  for (const Step& step : schedule.steps) {
    ExplainedKind& kind = kinds[kind_of(schedule, step)];
    kind.kind = kind_of(schedule, step);
    ++kind.steps;
  }
  for (int step : issue_order(schedule)) {
    ExplainedKind& kind = kinds[kind_of(schedule, schedule.steps[step])];
    kind.predicted += costs[step].seconds;
    kind.wire_bytes += costs[step].wire_bytes;
  }
  Explanation all{.predicted = predicted_seconds(schedule, machine, lanes, load)};
  for (auto& [name, kind] : kinds) all.kinds.push_back(std::move(kind));
  std::ranges::stable_sort(all.kinds, std::greater{}, &ExplainedKind::predicted);
  return all;
}

Explanation explain(Explanation all, const Schedule& schedule, const std::vector<double>& medians,
                    wire::Group& everyone) {
  const std::vector<std::vector<double>> times = of_all_ranks(everyone, medians);
  const int ranks = everyone.size();
  for (ExplainedKind& kind : all.kinds)
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      if (kind_of(schedule, schedule.steps[i]) != kind.kind) continue;
      std::vector<double> by_rank;
      for (const std::vector<double>& rank : times) by_rank.push_back(rank[i]);
      for (int r = 0; r < ranks; ++r) {
        const double least = shortest_in_group(schedule, schedule.steps[i], by_rank, r);
        kind.measured += least / ranks;
        all.waiting += (by_rank[static_cast<size_t>(r)] - least) / ranks;
      }
    }
  std::ranges::stable_sort(all.kinds, std::greater{}, &ExplainedKind::measured);
  return all;
}

}  // namespace plait
