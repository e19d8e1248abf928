#include "passes/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "schedule/builder.h"
#include "schedule/text.h"
#include "schedule/typing.h"

namespace plait {
namespace {

bool is_exchange(const Move& move) { return kinds(move.legs) == std::vector<MoveKind>{MoveKind::exchange}; }

bool invariant_over(const Type& type, const Atoms& atoms) {
  return std::all_of(atoms.begin(), atoms.end(), [&](Atom a) { return type.place(a).hold == Hold::I; });
}

void redirect(Schedule& s, ValueId from, ValueId to) {
  for (Step& step : s.steps) std::replace(step.in.begin(), step.in.end(), from, to);
  std::replace(s.outputs.begin(), s.outputs.end(), from, to);
}

}  // namespace

Schedule drop_duplicates(const Schedule& schedule, Axis axis) {
  const Types types = check(schedule);
  const Atoms atoms = schedule.mesh.axis(axis);
  Schedule out = schedule;
  out.steps.clear();
  for (const Step& step : schedule.steps) {
    const Move* move = as<Move>(step.op);
    if (!move || atoms.empty() || step.in.size() != 1 || !is_exchange(*move) ||
        !invariant_over(types[step.in[0]], atoms)) {
      out.steps.push_back(step);
      continue;
    }
    const bool rows = types[step.in[0]].jagged_index() >= 0;
    const Legs cut = slice_legs(atoms, rows ? DimOf(group_dim) : DimOf("C"));
    const std::string& name = schedule.names[step.out[0]];
    const ValueId sliced = out.add_value(name + ".slice"), exchanged = out.add_value(name + ".part");
    out.steps.push_back({Move{cut}, step.in, {sliced}});
    out.steps.push_back({*move, {sliced}, {exchanged}});
    out.steps.push_back({Move{transpose(cut)}, {exchanged}, step.out});
  }
  check(out);
  return out;
}

namespace {

// The legs of one move after another, in the order of the mesh's atoms; legs that cancel are left out.
Legs compose(const Mesh& mesh, const Legs& first, const Legs& second) {
  Legs all;
  for (Atom a : mesh.atoms()) {
    const auto at = [&](const Legs& legs) {
      return std::find_if(legs.begin(), legs.end(), [&](const Leg& l) { return l.atom == a; });
    };
    const auto f = at(first), g = at(second);
    if (f == first.end() && g == second.end()) continue;
    const Leg leg{a, f == first.end() ? g->from : f->from, g == second.end() ? f->to : g->to};
    if (leg.from != leg.to) all.push_back(leg);
  }
  return all;
}

// Whether composing pays: one message instead of two steps, and no free leg inside a message.
bool worth_merging(const Legs& legs, const Move& first, const Move& second) {
  const bool travels = collective(first.legs) != Collective::none || collective(second.legs) != Collective::none;
  if (!travels || collective(legs) == Collective::none) return false;
  const std::vector<MoveKind> k = kinds(legs);
  const auto is_free = [](MoveKind kind) { return collective(kind) == Collective::none; };
  return k.size() == 1 || std::none_of(k.begin(), k.end(), is_free);
}

// Merges one pair of moves in place; false when none is left.
bool merge_one(Schedule& s) {
  const Types types = check(s);
  const std::vector<int> made = makers(s), read = readers(s);
  for (size_t j = 0; j < s.steps.size(); ++j) {
    const Move* second = as<Move>(s.steps[j].op);
    if (!second || s.steps[j].in.size() != 1) continue;
    const ValueId between = s.steps[j].in[0];
    const int i = made[between];
    const Move* first = i < 0 ? nullptr : as<Move>(s.steps[i].op);
    if (!first || s.steps[i].in.size() != 1 || read[between] != 1) continue;
    const Legs legs = compose(s.mesh, first->legs, second->legs);
    const ValueId from = s.steps[i].in[0], to = s.steps[j].out[0];
    if (legs.empty()) {
      s.steps.erase(s.steps.begin() + static_cast<long>(j));
      s.steps.erase(s.steps.begin() + i);
      redirect(s, to, from);
      return true;
    }
    if (!worth_merging(legs, *first, *second)) continue;
    const Step merged{Move{legs}, {from}, {to}};
    try {
      if (infer_step(s, types, static_cast<int>(j), merged).front() != types[to]) continue;
    } catch (const TypeFault&) {
      continue;
    }
    s.steps[j] = merged;
    s.steps.erase(s.steps.begin() + i);
    return true;
  }
  return false;
}

}  // namespace

Schedule merge_moves(const Schedule& schedule) {
  Schedule out = schedule;
  while (merge_one(out)) {
  }
  check(out);
  return out;
}

Schedule repeat_section(const Schedule& schedule, Repeat section) {
  if (section.times == 1) return schedule;
  const Types types = check(schedule);
  const std::vector<int> made = makers(schedule);
  const auto inside = [&](ValueId v) { return made[v] >= section.first && made[v] < section.last; };
  Schedule out = schedule;
  std::vector<Step> sums;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  const auto sum_of = [&](ValueId v) {
    for (const auto& [value, sum] : replaced)
      if (value == v) return sum;
    const ValueId start = out.add_value(schedule.names[v] + ".start"), sum = out.add_value(schedule.names[v] + ".sum");
    out.leaves.push_back({start, LeafKind::sum, types[v]});
    sums.push_back({Accumulate{}, {start, v}, {sum}});
    if (auto of = schedule.cotangent_of.find(v); of != schedule.cotangent_of.end()) out.cotangent_of[sum] = of->second;
    replaced.emplace_back(v, sum);
    return sum;
  };
  for (size_t i = section.last; i < out.steps.size(); ++i)
    for (ValueId& v : out.steps[i].in)
      if (inside(v)) v = sum_of(v);
  for (ValueId& v : out.outputs)
    if (inside(v)) v = sum_of(v);
  out.steps.insert(out.steps.begin() + section.last, sums.begin(), sums.end());
  out.repeat = Repeat{section.first, section.last + static_cast<int>(sums.size()), section.times};
  check(out);
  return out;
}

Schedule drop_unused(const Schedule& schedule) {
  std::vector<bool> live(schedule.names.size(), false);
  for (ValueId v : schedule.outputs) live[v] = true;
  std::vector<bool> keep(schedule.steps.size(), false);
  for (int i = static_cast<int>(schedule.steps.size()) - 1; i >= 0; --i) {
    const Step& step = schedule.steps[i];
    keep[i] =
        !in_place(step).empty() || std::any_of(step.out.begin(), step.out.end(), [&](ValueId v) { return live[v]; });
    if (keep[i])
      for (ValueId v : step.in) live[v] = true;
  }
  Schedule out = schedule;
  out.steps.clear();
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    if (out.repeat && static_cast<int>(i) == schedule.repeat->first)
      out.repeat->first = static_cast<int>(out.steps.size());
    if (keep[i]) out.steps.push_back(schedule.steps[i]);
    if (out.repeat && static_cast<int>(i) + 1 == schedule.repeat->last)
      out.repeat->last = static_cast<int>(out.steps.size());
  }
  return out;
}

std::string fingerprint(const Schedule& schedule, ValueId value) {
  const std::vector<int> made = makers(schedule);
  std::map<ValueId, size_t> memo;
  const std::function<size_t(ValueId)> form = [&](ValueId v) -> size_t {
    if (made[v] < 0) return std::hash<std::string>{}("leaf " + schedule.names[v]);
    if (auto it = memo.find(v); it != memo.end()) return it->second;
    const Step& step = schedule.steps[made[v]];
    std::string text = print_op(schedule.mesh, step.op);
    for (ValueId u : step.in) text += fmt::format(" {:x}", form(u));
    text += fmt::format(" #{}", std::find(step.out.begin(), step.out.end(), v) - step.out.begin());
    return memo[v] = std::hash<std::string>{}(text);
  };
  return fmt::format("{:016x}", form(value));
}

}  // namespace plait
