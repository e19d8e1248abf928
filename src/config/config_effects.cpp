// When a key changes nothing in a configuration.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "config/catalogue.h"
#include "config/config_keys.h"

namespace plait {
namespace {

bool has_expert_layers(const Config& c) {
  return c.moe.every > 0 && c.moe.num_experts > 0 && c.moe.every <= c.model.num_hidden_layers;
}

// The gates that read a key; empty: all.
std::vector<std::string> readers(const Gates& gates, std::string_view key) {
  std::vector<std::string> names;
  for (const GateSpec* gate : gates)
    if (gate->reads(key)) names.emplace_back(gate->name);
  return names;
}

std::string no_effect_on_gate(const Config& c, std::string_view name) {
  const GateSpec& gate = *c.moe.gate;
  if (name == "moe.normalize" && gate.normalize == Normalize::none)
    return fmt::format("the {} gate never renormalises (moe.gate = \"{}\")", gate.name, gate.name);
  const std::vector<std::string> gates = readers(c.catalogue->gates, name);
  if (gates.empty() || gate.reads(name)) return "";
  return fmt::format("only {} {} it (moe.gate = \"{}\")", join(gates, ", "), gates.size() > 1 ? "read" : "reads",
                     gate.name);
}

std::string no_effect_on_time(const Config& c, std::string_view name) {
  const MeshConfig mesh = mesh_to_be(c);
  if (mesh.tp * mesh.dp == 1) return "one rank sends no messages";
  const bool chooses = !c.schedule.moe && has_expert_layers(c);
  if (chooses && name == "schedule.order") return "the order is chosen too (schedule.moe = \"auto\")";
  const bool needs_lanes = name == "schedule.order" || name == "schedule.bucket";
  if (needs_lanes && !c.schedule.lanes) return "messages travel in the rank's own thread (schedule.lanes = false)";
  if (name != "schedule.bucket") return "";
  if (c.schedule.order == StepOrder::written && !chooses)
    return "gradients are summed last of all (schedule.order = \"written\")";
  if (c.train.micro_batch_size > 0 && c.train.micro_batch_size * mesh.dp < c.train.batch_size)
    return "gradients are summed once a step, after all micro-batches (train.micro_batch_size)";
  return "";
}

}  // namespace

std::string no_effect(const Config& c, std::string_view name) {
  const Architecture& model = *c.model.architecture;
  if (name.starts_with("model.") && name != "model.architecture" && !model.reads(name))
    return fmt::format("{} does not read it (model.architecture)", model.name);
  const bool experts = has_expert_layers(c);
  const auto is_any = [&](auto... names) { return ((name == names) || ...); };
  const bool derives_dp = is_any("mesh.ep", "mesh.esp") && c.mesh.dp == 0;
  if (!experts && !derives_dp && !is_any("moe.every", "moe.num_experts") &&
      (name.starts_with("moe.") ||
       is_any("mesh.ep", "mesh.esp", "schedule.fuse", "schedule.chunks", "schedule.chunks_backward",
              "schedule.dispatch", "schedule.rows", "schedule.slice", "schedule.trials")))
    return fmt::format("no layer has experts (moe.every = {}, moe.num_experts = {}, model.num_hidden_layers = {})",
                       c.moe.every, c.moe.num_experts, c.model.num_hidden_layers);
  if (name == "moe.num_experts" && c.moe.every == 0) return "no layer has experts (moe.every = 0)";
  const bool groups_anyway = name == "moe.group" && c.moe.gate->route->chooser == Chooser::group;
  if (is_any("moe.min_capacity", "moe.drop", "moe.group") && !c.moe.capacity && !groups_anyway)
    return "nothing is dropped (moe.capacity = \"none\")";
  if (const std::string why = no_effect_on_gate(c, name); !why.empty()) return why;
  if (name == "moe.aux_scope" && aux_coef(c) == 0) return "there is no load-balancing loss (moe.aux_coef = 0)";
  if (is_any("schedule.fuse", "schedule.chunks", "schedule.chunks_backward") && !c.schedule.moe)
    return "it is chosen (schedule.moe = \"auto\"); name a family to set it";
  if (name == "schedule.trials" && c.schedule.moe) return "the schedule is named (schedule.moe)";
  if (name == "schedule.fuse" && !family_of(c).can_fuse())
    return fmt::format("{} has no gather that could be fused (schedule.moe)", family_of(c).name);
  if (name == "schedule.slice" && c.schedule.moe && !c.schedule.moe->cuts_rows())
    return fmt::format("only {} behind the gate (schedule.moe = \"{}\")", slicers(c), c.schedule.moe->name);
  if (is_any("schedule.slice", "schedule.rows") && c.moe.capacity)
    return "with a capacity rows are padded slots (moe.capacity)";
  if (name == "model.intermediate_size" && experts && c.moe.every == 1 && c.moe.moe_intermediate_size > 0)
    return "every layer has experts, whose width is moe.moe_intermediate_size";
  if (is_any("mesh.node", "schedule.lanes", "schedule.order", "schedule.bucket", "schedule.trials"))
    if (const std::string why = no_effect_on_time(c, name); !why.empty()) return why;
  if (name == "memory.zero") {
    const MeshConfig mesh = mesh_to_be(c);
    if (mesh.tp * mesh.dp == 1) return "one rank has nobody to share with";
  }
  if (name == "memory.keep_moves" && c.memory.recompute == Recompute::none)
    return "nothing is made again (memory.recompute = \"none\")";
  if (is_any("optim.betas", "optim.eps") && c.optim.name == OptimizerKind::sgd)
    return "sgd keeps no moments (optim.name = \"sgd\")";
  const bool half = is_half(c.train.dtype);
  if (name == "memory.grad_dtype" && !half)
    return fmt::format("gradients are of the one type of the run (train.dtype = \"{}\")", word(c.train.dtype));
  if (name == "memory.tile" && (!half || c.memory.grad_dtype != SumType::param))
    return fmt::format("no gradient of 2 bytes is widened (train.dtype = \"{}\", memory.grad_dtype = \"{}\")",
                       word(c.train.dtype), word(c.memory.grad_dtype));
  if (is_any("train.initial_scale_power", "train.loss_scale_window", "train.hysteresis", "train.min_loss_scale") &&
      c.train.dtype != RunType::float16)
    return fmt::format("only float16 scales the loss (train.dtype = \"{}\")", word(c.train.dtype));
  if (name == "train.eval_batches" && c.train.eval_every == 0) return "nothing is evaluated (train.eval_every = 0)";
  return "";
}

namespace {

// The value is no default, and yet so here.
bool is_so(const Config& c, std::string_view name) {
  if (name == "moe.normalize") return c.moe.gate->normalize == c.moe.normalize;
  if (name == "moe.num_experts") return c.moe.num_experts == 0;
  if (name == "schedule.fuse") return c.schedule.fuse == Fusing::no && c.schedule.moe;
  if (name == "schedule.trials") return c.schedule.trials == 0;
  return name == "memory.grad_dtype" && c.memory.grad_dtype == SumType::param;
}

Key key_named(Config& config, const std::string& name) {
  const std::vector<Key> keys = keys_of(config);
  return *std::ranges::find(keys, name, &Key::name);
}

}  // namespace

bool happens_anyway(const Config& c, const Key& key) {
  const std::string value = value_text(key);
  Config left_out = c, defaults = default_config(*c.catalogue);
  const Key usual = key_named(defaults, key.name);
  copy_value(usual, key_named(left_out, key.name));
  Config derived = resolve(left_out);
  return value == value_text(usual) || value == value_text(key_named(derived, key.name)) || is_so(c, key.name);
}

std::string idle_note(const Config& config) {
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<std::string>> names;
  for (const IdleKeys::Key& key : config.idle.keys) {
    if (names[key.why].empty()) reasons.push_back(key.why);
    names[key.why].push_back(key.name);
  }
  std::vector<std::string> parts;
  for (const std::string& why : reasons) parts.push_back(fmt::format("{}: {}", join(names[why], ", "), why));
  return parts.empty() ? "" : "no effect here: " + join(parts, "; ");
}

}  // namespace plait
