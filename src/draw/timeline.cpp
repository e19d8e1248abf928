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
    {"matrix product", "#3b76d6"}, {"attention", "#7a5fd0"},  {"other op", "#8fa3b8"},       {"update", "#5b6b7c"},
    {"all_reduce", "#d64f4f"},     {"all_gather", "#e39a2d"}, {"reduce_scatter", "#c9772b"}, {"all_to_all", "#2a9d6f"}};

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

// "l1" of "l1.rows", "l1 backward" of its cotangent "d_l1.rows"; empty for those without a part, and for what is named
// after a leaf: "NAME.real", "d_NAME_2".
std::string part_of_name(const std::string& name, const Names& leaves) {
  const bool backward = name.starts_with("d_");
  const std::string value = name.substr(backward ? 2 : 0), part = value.substr(0, value.find('.'));
  for (const size_t end : {value.size(), value.rfind('.'), value.rfind('_')})
    if (leaves.count(value.substr(0, end))) return "";
  if (part.empty() || part == value || part == "gates") return "";
  return backward ? part + " backward" : part;
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

std::vector<int> needs_of(const Step& step, const std::vector<int>& made) {
  std::vector<int> needs;
  for (ValueId v : step.in)
    if (made[v] >= 0 && std::ranges::find(needs, made[v]) == needs.end()) needs.push_back(made[v]);
  return needs;
}

}  // namespace

std::string_view name(StepKind kind) { return kLooks[static_cast<size_t>(kind)].name; }
std::string_view colour(StepKind kind) { return kLooks[static_cast<size_t>(kind)].colour; }

std::vector<StepNote> step_notes(const Schedule& schedule, const Types& types, const std::vector<StepCost>& costs) {
  std::vector<StepNote> notes;
  std::string part = "start";
  const std::vector<int> made = makers(schedule);
  const Names leaves = leaf_names(schedule);
  const int updates_from = schedule.repeat ? schedule.repeat->last : static_cast<int>(schedule.steps.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const bool updating =
        as<SumSquares>(step.op) || as<AdamW>(step.op) || as<Sgd>(step.op) || static_cast<int>(i) >= updates_from;
    const std::string own = part_of_name(schedule.names[step.out[0]], leaves);
    if (updating)
      part = "update";
    else if (!own.empty())
      part = own;
    notes.push_back({.kind = kind_of(step, costs[i]),
                     .name = schedule.names[step.out[0]],
                     .title = schedule.title(step),
                     .part = part,
                     .lines = lines_of(schedule, types, step, costs[i]),
                     .needs = needs_of(step, made)});
  }
  return notes;
}

std::vector<std::string> lane_names(const Machine& machine) {
  std::vector<std::string> lanes = {"compute"};
  for (const Level& level : machine.levels) lanes.push_back(level.name);
  return lanes;
}

Drawing drawing(const Schedule& schedule, const Machine& machine, std::string title, Timeline timeline) {
  const Types types = check(schedule);
  return {.title = std::move(title),
          .timeline = std::move(timeline),
          .notes = step_notes(schedule, types, step_costs(schedule, types, machine)),
          .lanes = lane_names(machine),
          .memory = plan_memory(schedule, types, {}).curve};
}

}  // namespace plait
