#include "plan/critical_path.h"

#include <algorithm>

#include "schedule/wire_bytes.h"

namespace plait {
namespace {

// A timeline by rank and place, and what each place follows.
class Followed {
 public:
  Followed(const Schedule& schedule, const Timeline& timeline) : schedule_(schedule), order_(issue_order(schedule)) {
    std::vector<Lane> lanes(schedule.steps.size(), Lane::compute);
    for (const TimeSpan& span : timeline.spans) {
      const auto rank = static_cast<size_t>(span.rank);
      if (spans_.size() <= rank) spans_.resize(rank + 1, std::vector<const TimeSpan*>(order_.size(), nullptr));
      spans_[rank][static_cast<size_t>(span.place)] = &span;
      lanes[static_cast<size_t>(span.step)] = static_cast<Lane>(span.lane);
    }
    find_places(lanes);
  }

  // The span at this place of the rank that the others of its group waited for.
  const TimeSpan& last_comer(const TimeSpan& span) const {
    const TimeSpan* last = &span;
    const Move* move = as<Move>(schedule_.steps[static_cast<size_t>(span.step)].op);
    if (!move || spans_.size() < static_cast<size_t>(schedule_.mesh.ranks())) return span;
    for (int rank : schedule_.mesh.group(span.rank, wire_atoms(move->legs)))
      if (const TimeSpan* other = at(rank, span.place); other && other->start > last->start) last = other;
    return *last;
  }

  // What it waited for on its rank; null for the first.
  const TimeSpan* before(const TimeSpan& span) const {
    const TimeSpan* last = nullptr;
    for (int place : before_[static_cast<size_t>(span.place)])
      if (const TimeSpan* other = at(span.rank, place); other && (!last || other->end > last->end)) last = other;
    return last;
  }

 private:
  const TimeSpan* at(int rank, int place) const {
    return spans_[static_cast<size_t>(rank)][static_cast<size_t>(place)];
  }

  // As in plan/simulate.h: the previous step of its lane, those of other lanes that it must follow, and all that stand
  // before this run of a repeated section.
  void find_places(const std::vector<Lane>& lanes) {
    const LaneRules rules = lane_rules(schedule_, lanes);
    const Repeat repeat = schedule_.repeat.value_or(Repeat{-1, -1, 0});
    std::vector<int> of_step(lanes.size(), -1), of_lane(kNumLanes, -1), section;
    for (size_t place = 0; place < order_.size(); ++place) {
      const auto step = static_cast<size_t>(order_[place]);
      if (order_[place] == repeat.first || order_[place] == repeat.last) section = of_lane;
      std::vector<int> before = section;
      int& lane = of_lane[static_cast<size_t>(lanes[step])];
      before.push_back(lane);
      for (int other : rules.waits[step]) before.push_back(of_step[static_cast<size_t>(other)]);
      std::erase(before, -1);
      before_.push_back(std::move(before));
      lane = of_step[step] = static_cast<int>(place);
    }
  }

  const Schedule& schedule_;
  std::vector<int> order_;
  std::vector<std::vector<const TimeSpan*>> spans_;  // by rank, then place
  std::vector<std::vector<int>> before_;             // by place
};

}  // namespace

std::vector<CriticalStep> critical_path(const Schedule& schedule, const Timeline& timeline) {
  std::vector<CriticalStep> path;
  if (timeline.spans.empty()) return path;
  const Followed followed(schedule, timeline);
  const TimeSpan* span = &*std::ranges::max_element(timeline.spans, {}, &TimeSpan::end);
  while (span) {
    const TimeSpan& last = followed.last_comer(*span);
    const TimeSpan* before = followed.before(last);
    const double free = before ? before->end : 0, start = std::min(std::max(last.start, free), span->end);
    path.push_back({span->rank, span->lane, span->step, start, span->end, std::max(0.0, start - free)});
    span = before;
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace plait
