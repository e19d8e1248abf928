// Rewrites of messages: apart, atom by atom, and in buckets.
#include <fmt/format.h>

#include <algorithm>

#include "passes/rewrite_list.h"
#include "schedule/typing.h"

namespace plait {

Schedule replace_steps(const Schedule& schedule, const Replace& replace) {
  Schedule out = schedule;
  out.steps.clear();
  std::vector<int> now;  // by old index
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    now.push_back(static_cast<int>(out.steps.size()));
    const std::vector<Step> steps = replace(out, static_cast<int>(i));
    out.steps.insert(out.steps.end(), steps.begin(), steps.end());
  }
  now.push_back(static_cast<int>(out.steps.size()));
  if (out.repeat) out.repeat = Repeat{now[schedule.repeat->first], now[schedule.repeat->last], schedule.repeat->times};
  return out;
}

std::string free_name(const Schedule& schedule, const std::string& base) {
  std::string name = base;
  for (int i = 2; schedule.find(name) >= 0; ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

namespace {

// The type after these moves; none where one of them does not type.
std::optional<Type> moved(const Schedule& list, Type type, const std::vector<Legs>& parts) {
  try {
    for (const Legs& legs : parts)
      type = infer({list.mesh, Move{legs}, {{"part", &type}}, "rewrite", list.precision}).front();
  } catch (const TypeFault&) {
    return std::nullopt;
  }
  return type;
}

}  // namespace

std::optional<std::vector<Step>> instead_of(Schedule& out, const Types& types, const Step& move,
                                            const std::vector<Legs>& parts) {
  for (size_t i = 0; i < move.in.size(); ++i)
    if (moved(out, types[move.in[i]], parts) != types[move.out[i]]) return std::nullopt;
  std::vector<Step> steps;
  std::vector<ValueId> in = move.in;
  for (size_t p = 0; p < parts.size(); ++p) {
    Step step{Move{parts[p]}, in, move.out};
    if (p + 1 < parts.size())
      for (size_t i = 0; i < step.out.size(); ++i)
        step.out[i] = out.add_value(free_name(out, out.names[move.out[i]] + ".part"));
    in = step.out;
    steps.push_back(std::move(step));
  }
  return steps;
}

namespace {

using Ways = std::function<std::vector<std::vector<Legs>>(const Legs&)>;

// Each move becomes the first of its ways that types as it does; a move without one stays.
Schedule moves_instead(const Schedule& schedule, const Ways& ways) {
  const Types types = check(schedule);
  Schedule out = replace_steps(schedule, [&](Schedule& list, int index) -> std::vector<Step> {
    const Step& step = schedule.steps[index];
    const Move* move = as<Move>(step.op);
    const bool plain = move && step.in.size() == step.out.size();  // not lowered over cells
    for (const auto& parts : plain ? ways(move->legs) : std::vector<std::vector<Legs>>{})
      if (const auto steps = instead_of(list, types, step, parts)) return *steps;
    return {step};
  });
  check(out);
  return out;
}

}  // namespace

Schedule unfuse_moves(const Schedule& schedule) {
  return moves_instead(schedule, [](const Legs& legs) -> std::vector<std::vector<Legs>> {
    Legs exchanges, others;
    for (const Leg& leg : legs) (*find_kind(leg) == MoveKind::exchange ? exchanges : others).push_back(leg);
    if (exchanges.empty() || others.empty()) return {};
    if (*find_kind(others.front()) == MoveKind::scatter) return {{others, exchanges}};
    return {{exchanges, others}};
  });
}

Schedule one_atom_at_a_time(const Schedule& schedule) {
  return moves_instead(schedule, [](Legs legs) {
    std::vector<std::vector<Legs>> ways;
    if (legs.size() < 2 || kinds(legs) != std::vector<MoveKind>{MoveKind::exchange}) return ways;
    std::sort(legs.begin(), legs.end());
    do {
      ways.emplace_back();
      for (const Leg& leg : legs) ways.back().push_back({leg});
    } while (std::next_permutation(legs.begin(), legs.end()));
    return ways;
  });
}

namespace {

// What a cast may go before: a sum over ranks, and what packs for one.
bool adds_up(const Op& op) {
  if (as<Pack>(op)) return true;
  const Move* move = as<Move>(op);
  const Collective kind = move ? collective(move->legs) : Collective::none;
  return kind == Collective::all_reduce || kind == Collective::reduce_scatter;
}

// By value: the cast to full that alone reads it, -1 where there is none.
std::vector<int> lone_casts(const Schedule& s, const Types& types) {
  const std::vector<int> read = readers(s);
  std::vector<int> casts(s.names.size(), -1);
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const ValueId x = s.steps[i].in[0];
    if (as<Cast>(s.steps[i].op) && types[s.steps[i].out[0]].dtype == Dtype::full && read[x] == 1)
      casts[x] = static_cast<int>(i);
  }
  return casts;
}

}  // namespace

namespace {

Schedule casts_before_sums(const Schedule& schedule) {
  const std::vector<int> casts = lone_casts(schedule, check(schedule));
  const std::vector<int> made = makers(schedule);
  const auto waits = [&](ValueId v) { return casts[v] >= 0; };
  const auto moves_up = [&](int step) {
    const Step& s = schedule.steps[step];
    return adds_up(s.op) && s.in.size() == s.out.size() && std::all_of(s.out.begin(), s.out.end(), waits);
  };
  Schedule out = replace_steps(schedule, [&](Schedule& list, int index) -> std::vector<Step> {
    const Step& step = schedule.steps[index];
    if (as<Cast>(step.op) && waits(step.in[0]) && made[step.in[0]] >= 0 && moves_up(made[step.in[0]])) return {};
    if (!moves_up(index)) return {step};
    std::vector<Step> steps;
    Step move = step;
    for (size_t i = 0; i < step.in.size(); ++i) {
      move.in[i] = list.add_value(free_name(list, list.names[step.in[i]] + ".full"));
      move.out[i] = schedule.steps[casts[step.out[i]]].out[0];
      steps.push_back({Cast{Dtype::full}, {step.in[i]}, {move.in[i]}});
    }
    steps.push_back(move);
    return steps;
  });
  check(out);
  return out;
}

}  // namespace

Schedule sum_in_full(const Schedule& schedule) {
  return casts_before_sums(casts_before_sums(schedule));  // once for the sum, once for the pack before it
}

Schedule split_messages(const Schedule& schedule, int64_t elements, int first, int last) {
  const Types types = check(schedule);
  const std::vector<int> made = makers(schedule);
  Schedule out = replace_steps(schedule, [&](Schedule&, int index) -> std::vector<Step> {
    const Step& step = schedule.steps[index];
    if (index < first || (last >= 0 && index >= last) || !as<Move>(step.op) || step.in.size() < 2 ||
        step.in.size() != step.out.size())
      return {step};
    std::vector<size_t> order;
    for (size_t i = 0; i < step.in.size(); ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return made[step.in[a]] < made[step.in[b]]; });
    std::vector<Step> buckets;
    int64_t filled = 0;
    for (size_t i : order) {
      const int64_t size = local_elements(schedule.mesh, types[step.in[i]]);
      if (buckets.empty() || filled + size > elements) {
        buckets.push_back({step.op, {}, {}});
        filled = 0;
      }
      buckets.back().in.push_back(step.in[i]);
      buckets.back().out.push_back(step.out[i]);
      filled += size;
    }
    return buckets;
  });
  check(out);
  return out;
}

}  // namespace plait
