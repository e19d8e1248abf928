#include "schedule/storage.h"

#include <algorithm>

namespace plait {
namespace {

using How = Sharing::How;

std::vector<Sharing> each(const Step& step, How how) {
  std::vector<Sharing> all;
  for (int i = 0; i < static_cast<int>(step.out.size()); ++i) all.push_back({how, i, i});
  return all;
}

// A chunk of dim d lies in one piece where nothing is left of it.
bool leading(const std::vector<int64_t>& shape, size_t d) {
  return std::all_of(shape.begin(), shape.begin() + static_cast<long>(d), [](int64_t n) { return n == 1; });
}

// What a rank keeps of a value of fixed size lies in one piece where all but one of the dims left of what is whole
// have size 1 in it.
bool one_piece(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  size_t whole = from.size();
  while (whole > 0 && from[whole - 1] == to[whole - 1]) --whole;
  return whole == 0 || leading(to, whole - 1);
}

std::vector<Sharing> of_move(const Mesh& mesh, const Types& types, const Step& step, const Move& move) {
  const Collective c = collective(move.legs);
  if (c == Collective::all_reduce) return each(step, How::over);
  const std::vector<MoveKind> all = kinds(move.legs);
  if (c != Collective::none || std::ranges::find(all, MoveKind::pad) != all.end()) return {};
  std::vector<Sharing> views = each(step, How::view);
  std::erase_if(views, [&](const Sharing& s) {
    const Type &from = types[step.in[s.in]], &to = types[step.out[s.out]];
    return from.jagged_index() < 0 && !one_piece(local_shape(mesh, from), local_shape(mesh, to));
  });
  return views;
}

std::vector<Sharing> of_split(const Mesh& mesh, const Types& types, const Step& step, const Split& split) {
  const Type& type = types[step.in[0]];
  const auto dim = std::ranges::find(type.dims, split.dim, &Dim::name) - type.dims.begin();
  if (split.parts > 1 && !leading(local_shape(mesh, type), static_cast<size_t>(dim))) return {};
  std::vector<Sharing> views;
  for (int i = 0; i < split.parts; ++i) views.push_back({How::view, i, 0});
  return views;
}

bool copies(const Op& op) {
  const Dup* dup = as<Dup>(op);
  const Pick* pick = as<Pick>(op);
  return (dup && dup->scale == 1) || (pick && pick->scale == 1);
}

}  // namespace

std::vector<Sharing> sharing(const Mesh& mesh, const Types& types, const Step& step) {
  if (const Move* move = as<Move>(step.op)) return of_move(mesh, types, step, *move);
  if (const Split* split = as<Split>(step.op)) return of_split(mesh, types, step, *split);
  if (as<Unflatten>(step.op) || as<Flatten>(step.op) || as<Unpack>(step.op) || copies(step.op))
    return {{How::view, 0, 0}};
  if (const Pack* pack = as<Pack>(step.op))
    return local_elements(mesh, types[step.in[0]]) == pack->size ? std::vector<Sharing>{{How::view, 0, 0}}
                                                                 : std::vector<Sharing>{};
  if (as<Add>(step.op) && step.in.size() > 1) return {{How::over, 0, 0}, {How::over, 0, 1}};
  if (as<Add>(step.op) || as<Scale>(step.op) || as<ActivateGrad>(step.op) || as<Rope>(step.op))
    return {{How::over, 0, 0}};
  std::vector<Sharing> views;
  for (const InPlace& p : in_place(step.op)) views.push_back({How::view, p.out, p.in});
  return views;
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
