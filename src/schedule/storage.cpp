#include "schedule/storage.h"

#include <algorithm>

namespace plait {
std::vector<Sharing> sharing(const Mesh& mesh, const Types& types, const Step& step) {
  const Memory& memory = traits_of(step.op).memory;
  std::vector<Sharing> all = memory.may(step);
  std::erase_if(all, [&](const Sharing& s) { return !memory.does({mesh, types, step}, s); });
  for (Sharing& s : all)
    if (s.how == Sharing::How::in_place) s.how = Sharing::How::view;
  return all;
}

std::vector<Lane> without_lanes(const Schedule& schedule) {
  return std::vector<Lane>(schedule.steps.size(), Lane::compute);
}

Lifetimes lifetimes(const Schedule& schedule, const std::vector<Lane>& lanes, const std::vector<ValueId>& kept) {
  const std::vector<int> made = makers(schedule), last = last_uses(schedule);
  std::vector<bool> stays(schedule.names.size(), false);
  for (const auto* all : {&schedule.outputs, &kept})
    for (ValueId v : *all) stays[v] = true;
  const auto in_section = [&](int i) {
    return schedule.repeat && i >= schedule.repeat->first && i < schedule.repeat->last;
  };
  const std::vector<std::vector<ValueId>> ends = lane_rules(schedule, lanes).ends;
  std::vector<int> ended_by(last.size(), -1);
  for (size_t i = 0; i < ends.size(); ++i)
    for (ValueId v : ends[i]) ended_by[v] = static_cast<int>(i);
  Lifetimes lives{.ends = std::vector<std::vector<ValueId>>(schedule.steps.size())};
  for (ValueId v = 0; v < static_cast<ValueId>(last.size()); ++v) {
    if (made[v] < 0 || last[v] < 0 || stays[v]) continue;
    if (ended_by[v] >= 0 && in_section(last[v]) == in_section(made[v]))
      lives.ends[ended_by[v]].push_back(v);
    else
      (in_section(last[v]) ? lives.end_after_section : lives.end_with_list).push_back(v);
  }
  return lives;
}

}  // namespace plait
