#include "draw/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "schedule/text.h"

namespace plait {
namespace {

struct KindLook {
  std::string_view name, colour;
};

// Computation in blues and greys, messages in warm colours.
constexpr KindLook kLooks[kStepKinds] = {
    {"matrix product", "#3472d2"}, {"attention", "#7a5fd0"},  {"other op", "#8fa3b8"},       {"update", "#5b6b7c"},
    {"all_reduce", "#d64f4f"},     {"all_gather", "#e39a2d"}, {"reduce_scatter", "#c9772b"}, {"all_to_all", "#2a9d6f"}};

// By MemoryClass: states in dark greens, activations in pinks.
constexpr std::string_view kMemoryColours[kMemoryClasses] = {"#0b4f4a", "#57b8c9", "#b4cc3e", "#d9dde3",
                                                             "#c45fa0", "#f29ac8", "#6e3b1f"};

StepKind kind_of(const Step& step, const StepCost& cost) {
  if (const Move* move = as<Move>(step.op); move && cost.lane != kComputeLane) {
    switch (collective(move->legs)) {
      case Collective::all_reduce: return StepKind::all_reduce;
      case Collective::all_gather: return StepKind::all_gather;
      case Collective::reduce_scatter: return StepKind::reduce_scatter;
      default: return StepKind::all_to_all;
    }
  }
  if (as<Einsum>(step.op)) return StepKind::product;
  if (as<Attention>(step.op) || as<AttentionGrad>(step.op)) return StepKind::attention;
  if (as<AdamW>(step.op) || as<Sgd>(step.op)) return StepKind::update;
  return StepKind::other;
}

using Names = std::set<std::string>;

Names leaf_names(const Schedule& schedule) {
  Names names;
  for (const Leaf& leaf : schedule.leaves) names.insert(schedule.names[leaf.value]);
  return names;
}

// A value's name without what was put in front of it: "d_" of a cotangent, "re_" of what is made again.
struct ReadName {
  std::string value, then;  // "l1.rows" and " backward" of "d_l1.rows"
};
ReadName read_name(const std::string& name) {
  if (name.starts_with("d_")) return {name.substr(2), " backward"};
  if (name.starts_with("re_")) return {name.substr(3), " again"};
  return {name, ""};
}

bool named_after_leaf(const std::string& value, const Names& leaves) {
  for (const size_t end : {value.size(), value.rfind('.'), value.rfind('_')})
    if (leaves.count(value.substr(0, end))) return true;
  return false;
}

// "l1" of "l1.rows", "l1 backward" of its cotangent; empty for those without a part, and for what is named after a
// leaf: "NAME.real", "d_NAME_2".
std::string part_of_name(const std::string& name, const Names& leaves) {
  const auto [value, then] = read_name(name);
  const std::string part = value.substr(0, value.find('.'));
  if (named_after_leaf(value, leaves) || part.empty() || part == value || part == "gates") return "";
  return part + then;
}

// Sums of parameters' gradients over ranks.
bool sums_gradients(const Step& step, const std::string& name, const Names& leaves) {
  return as<Move>(step.op) && name.starts_with("d_") && named_after_leaf(name.substr(2), leaves);
}

// The part of what follows from a step in `part`: a cotangent stands in the backward pass.
std::string following(const std::string& part, const std::string& name) {
  if (!name.starts_with("d_") || part.empty() || part == "gradients" || part == "update") return part;
  return part.substr(0, part.find(' ')) + " backward";
}

std::string own_part(const Schedule& schedule, const Step& step, const Names& leaves) {
  const std::string& name = schedule.names[step.out[0]];
  if (as<SumSquares>(step.op) || as<AdamW>(step.op) || as<Sgd>(step.op)) return "update";
  return as<Accumulate>(step.op) || sums_gradients(step, name, leaves) ? "gradients" : part_of_name(name, leaves);
}

// Where each step stands: as its result is named; else where the last of its operands was made; else where what it
// makes is read first. The order of the list says nothing of it.
std::vector<std::string> parts_of(const Schedule& schedule) {
  const Names leaves = leaf_names(schedule);
  const std::vector<int> made = makers(schedule);
  std::vector<std::string> parts;
  for (const Step& step : schedule.steps) {
    std::string part = own_part(schedule, step, leaves);
    int last = -1;
    for (ValueId v : step.in)
      if (made[v] > last && !parts[static_cast<size_t>(made[v])].empty()) last = made[v];
    if (part.empty() && last >= 0) part = following(parts[static_cast<size_t>(last)], schedule.names[step.out[0]]);
    parts.push_back(part);
  }
  const std::vector<std::string> known = parts;
  for (size_t i = parts.size(); i-- > 0;)
    for (ValueId v : schedule.steps[i].in)
      if (made[v] >= 0 && known[static_cast<size_t>(made[v])].empty()) parts[static_cast<size_t>(made[v])] = parts[i];
  std::ranges::replace(parts, std::string(), std::string("start"));
  return parts;
}

std::vector<std::string> lines_of(const Schedule& schedule, const Types& types, const Step& step,
                                  const StepCost& cost) {
  std::vector<std::string> lines;
  constexpr size_t kMost = 3;
  for (size_t i = 0; i < std::min(step.out.size(), kMost); ++i)
    lines.push_back("%" + schedule.names[step.out[i]] + " : " + to_string(schedule.mesh, types[step.out[i]]));
  if (step.out.size() > kMost) lines.push_back(fmt::format("and {} more", step.out.size() - kMost));
  std::string work;
  const auto say = [&](const std::string& words) {
    if (!work.empty()) work += ", ";
    work += words;
  };
  if (cost.flops > 0) say(human_count(cost.flops) + " flop");
  if (cost.memory_bytes > 0) say(human_bytes(cost.memory_bytes) + " of memory");
  if (cost.wire_bytes > 0) say(fmt::format("{} sent, {} ranks", human_bytes(cost.wire_bytes), cost.ranks));
  if (!work.empty()) lines.push_back(work);
  return lines;
}

std::string alike(const std::string& title, const StepCost& cost) {
  if (cost.seconds <= 0) return "";
  return fmt::format("{} {:.0f} {:.0f} {:.0f} {}", title, cost.flops, cost.memory_bytes, cost.wire_bytes, cost.lane);
}

std::vector<int> needs_of(const Step& step, const std::vector<int>& made) {
  std::vector<int> needs;
  for (ValueId v : step.in)
    if (made[v] >= 0 && std::ranges::find(needs, made[v]) == needs.end()) needs.push_back(made[v]);
  return needs;
}

}  // namespace

std::string_view name(StepKind kind) { return kLooks[static_cast<size_t>(kind)].name; }
std::string_view colour(MemoryClass what) { return kMemoryColours[static_cast<size_t>(what)]; }
std::string_view colour(StepKind kind) { return kLooks[static_cast<size_t>(kind)].colour; }

std::vector<StepNote> step_notes(const Schedule& schedule, const Types& types, const std::vector<StepCost>& costs) {
  std::vector<StepNote> notes;
  const std::vector<int> made = makers(schedule);
  const std::vector<std::string> parts = parts_of(schedule);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const std::string title = schedule.title(step);
    notes.push_back({.kind = kind_of(step, costs[i]),
                     .name = schedule.names[step.out[0]],
                     .title = title,
                     .part = parts[i],
                     .alike = alike(title, costs[i]),
                     .lines = lines_of(schedule, types, step, costs[i]),
                     .needs = needs_of(step, made)});
  }
  return notes;
}

std::vector<std::string> lane_names() { return {"compute", "node", "network"}; }

Drawing drawing(const Schedule& schedule, const Machine& machine, std::string title, Timeline timeline) {
  const Types types = check(schedule);
  std::vector<CriticalStep> path = critical_path(schedule, timeline);
  return {.title = std::move(title),
          .timeline = std::move(timeline),
          .notes = step_notes(schedule, types, step_costs(schedule, types, machine)),
          .lanes = lane_names(),
          .repeat = schedule.repeat,
          .path = std::move(path),
          .memory = plan_memory(schedule, types, {}).curve};
}

}  // namespace plait
