// What follows from a config: derived defaults, derived numbers, and the layouts that no set of ranks can hold.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include "base/errors.h"
#include "base/launch.h"
#include "base/units.h"
#include "config/catalogue.h"
#include "config/config.h"
#include "config/config_keys.h"

namespace plait {
namespace {

struct Named {
  std::string name;
  int64_t value;
  std::string text() const { return fmt::format("{} = {}", name, value); }
};

void must_divide(const Named& part, const Named& whole) {
  if (whole.value % part.value != 0) input_error("{} is not divisible by {}", whole.text(), part.text());
}

// 0 is to be derived.
void fill(int64_t& field, int64_t value) {
  if (field == 0) field = std::max<int64_t>(1, value);
}

void fill_mesh(Config& c) {
  fill(c.mesh.esp, num_expert_layers(c) > 0 ? c.mesh.tp : 1);
  fill(c.mesh.dp, (launched() ? launched_size() : c.mesh.ep * c.mesh.esp) / c.mesh.tp);
  const int64_t node = launched_node_size();
  fill(c.mesh.node, node > 0 && node < num_ranks(c) ? node : num_ranks(c));
}

void check_ranges(Config config) {
  for (const Key& key : keys_of(config)) {
    if (!in_range(key)) input_error("{} = {}, expected {}", key.name, value_text(key), expected_text(key));
  }
}

void check_model(const Config& c) {
  const Named heads{"model.num_attention_heads", c.model.num_attention_heads};
  const Named kv_heads{"model.num_key_value_heads", c.model.num_key_value_heads};
  const Named hidden{"model.hidden_size", c.model.hidden_size};
  const Named tp{"mesh.tp", c.mesh.tp};
  must_divide(heads, hidden);
  const int64_t head_size = hidden.value / heads.value;
  if (head_size % 2 != 0)
    input_error("{} over {} gives heads of size {}; rotary positions need an even size", hidden.text(), heads.text(),
                head_size);
  must_divide(kv_heads, heads);
  must_divide(tp, heads);
  if (kv_heads.value < tp.value)
    input_error("{} is fewer than {}: each of those ranks needs a key/value head", kv_heads.text(), tp.text());
  must_divide(tp, kv_heads);
  must_divide(tp, {"model.vocab_size", c.model.vocab_size});
  if (num_expert_layers(c) < c.model.num_hidden_layers)
    must_divide(tp, {"model.intermediate_size", c.model.intermediate_size});
}

// The ranks are cut three times, as dp x tp, as edp x ep x esp and into nodes; the cuts must nest.
void check_mesh(const Config& c) {
  const Named ranks{"mesh.tp x mesh.dp", num_ranks(c)};
  const Named expert_ranks{"mesh.ep x mesh.esp", c.mesh.ep * c.mesh.esp};
  must_divide(expert_ranks, ranks);
  must_divide({"mesh.node", c.mesh.node}, ranks);
  std::vector<Named> cuts = {
      {"mesh.tp", c.mesh.tp}, {"mesh.esp", c.mesh.esp}, {"mesh.node", c.mesh.node}, expert_ranks, ranks};
  std::ranges::stable_sort(cuts, {}, &Named::value);
  for (size_t i = 1; i < cuts.size(); ++i) must_divide(cuts[i - 1], cuts[i]);
}

void check_memory(const Config& c) {
  if (c.memory.zero != 0 && c.memory.zero != 1 && c.memory.zero != 3)
    input_error("memory.zero = {}, expected 0, 1 or 3 (1 shares gradients too once they are summed)", c.memory.zero);
}

void check_batch(const Config& c) {
  must_divide({"train.micro_batch_size x mesh.dp", c.train.micro_batch_size * c.mesh.dp},
              {"train.batch_size", c.train.batch_size});
  must_divide({"mesh.tp", c.mesh.tp}, {"train.micro_batch_size x train.seq_length", micro_tokens(c)});
  if (c.optim.min_lr > c.optim.lr) input_error("optim.min_lr = {} is above optim.lr = {}", c.optim.min_lr, c.optim.lr);
  if (c.train.eval_every > 0 && c.data.validation == 0)
    input_error("train.eval_every = {} needs text to evaluate on, but data.validation = 0", c.train.eval_every);
}

void check_loss_scale(const Config& c) {
  if (c.train.dtype == "float16" && c.train.initial_scale_power > 60)
    input_error("train.initial_scale_power = {} starts with a loss scale near the end of float32: choose at most 60",
                c.train.initial_scale_power);
}

void check_capacity(const Config& c) {
  const Named group{"moe.group", gate_group(c)};
  must_divide(group, {"the tokens that one rank gates", gated_tokens(c)});
  const int64_t most = 8 * group.value;
  const double room = *c.moe.capacity * static_cast<double>(group.value * c.moe.num_experts_per_tok) /
                      static_cast<double>(c.moe.num_experts);
  if (room > static_cast<double>(most))
    input_error(
        "moe.capacity = {} gives each expert room for {:.0f} rows, more than 8 times the {} tokens of its group",
        *c.moe.capacity, std::ceil(room), group.value);
  if (c.moe.min_capacity > most)
    input_error("moe.min_capacity = {} is more than 8 times the {} tokens of its group", c.moe.min_capacity,
                group.value);
}

// What a family asks of a padded buffer.
void check_family_capacity(const Config& c) {
  const int64_t group = gate_group(c), room = expert_capacity(c, group);
  if (c.schedule.moe == "parm" && c.mesh.tp > 1 && room < group)
    input_error(
        "schedule.moe = \"parm\" gates mesh.tp = {} copies of each token, which must all be kept, but moe.capacity = "
        "{} "
        "gives an expert {} slots for the {} tokens of a group: raise it, or set \"none\"",
        c.mesh.tp, *c.moe.capacity, room, group);
  if (c.schedule.moe == "s2" && c.schedule.fuse == "no" && c.mesh.tp > c.mesh.esp)
    input_error(
        "schedule.fuse = \"no\" with schedule.moe = \"s2\" and moe.capacity needs mesh.tp <= mesh.esp, but mesh.tp = "
        "{} and "
        "mesh.esp = {}",
        c.mesh.tp, c.mesh.esp);
}

void check_gate(const Config& c) {
  const GateSpec& gate = gate_of(c);
  const Chooser chooser = gate.route->chooser;
  const Named chosen{"moe.num_experts_per_tok", c.moe.num_experts_per_tok};
  if (const int64_t fixed = gate.route->top_k; fixed && chosen.value != fixed)
    input_error("{}, but moe.gate = \"{}\" chooses exactly {}: set it to {}", chosen.text(), gate.name, fixed, fixed);
  if (chooser == Chooser::expert && !c.moe.capacity)
    input_error("moe.gate = \"{}\" takes moe.capacity rows for each expert, but it is \"none\"", gate.name);
  if (chooser == Chooser::group)
    must_divide({"moe.group", gate_group(c)}, {"the tokens that one rank gates", gated_tokens(c)});
  const Named groups{"moe.expert_groups", c.moe.expert_groups}, kept{"moe.kept_groups", c.moe.kept_groups};
  must_divide(groups, {"moe.num_experts", c.moe.num_experts});
  if (kept.value > groups.value) input_error("{} is more than {}", kept.text(), groups.text());
  const int64_t room = c.moe.num_experts / groups.value * kept.value;
  if (kept.value < groups.value && chosen.value > room)
    input_error("{} is more than the {} experts of {}", chosen.text(), room, kept.text());
  if (c.schedule.moe != "parm" || c.mesh.tp == 1) return;
  if (chooser != Chooser::token)
    input_error(
        "moe.gate = \"{}\" decides over groups of tokens, but schedule.moe = \"parm\" gates mesh.tp = {} copies of "
        "them",
        gate.name, c.mesh.tp);
  if (gate.noise)
    input_error(
        "schedule.moe = \"parm\" gates mesh.tp = {} copies of each token, which the noise of moe.gate = \"{}\" would "
        "send different ways",
        c.mesh.tp, gate.name);
  if (c.moe.sample != "none" || c.moe.jitter > 0)
    input_error(
        "schedule.moe = \"parm\" gates mesh.tp = {} copies of each token, which moe.sample = \"{}\" and moe.jitter = "
        "{} would send different ways",
        c.mesh.tp, c.moe.sample, c.moe.jitter);
}

// Experts compute the parts of the finer pipeline, whose messages the coarser one joins.
void check_chunks(const Config& c) {
  const Named forward{"schedule.chunks", c.schedule.chunks},
      backward{"schedule.chunks_backward", c.schedule.chunks_backward};
  forward.value < backward.value ? must_divide(forward, backward) : must_divide(backward, forward);
}

// How rows cross between nodes.
void check_dispatch(const Config& c) {
  const ScheduleConfig& s = c.schedule;
  if (s.dispatch == "direct") return;
  const std::string dispatch = fmt::format("schedule.dispatch = \"{}\"", s.dispatch);
  if (c.mesh.ep * c.mesh.esp <= c.mesh.node)
    input_error("{} is for experts on several nodes, but mesh.ep x mesh.esp = {} ranks lie within mesh.node = {}",
                dispatch, c.mesh.ep * c.mesh.esp, c.mesh.node);
  if (c.mesh.esp > c.mesh.node)
    input_error("{} needs every expert within a node, but mesh.esp = {} is more than mesh.node = {}", dispatch,
                c.mesh.esp, c.mesh.node);
  if (s.moe == "dtd") input_error("{}: schedule.moe = \"dtd\" would join its slices on every level", dispatch);
  if (s.dispatch == "levels") {
    if (s.moe == "s2" && c.moe.capacity && c.mesh.tp > c.mesh.node)
      input_error(
          "{}: schedule.moe = \"s2\" with moe.capacity needs mesh.tp <= mesh.node, but mesh.tp = {} and "
          "mesh.node = {}",
          dispatch, c.mesh.tp, c.mesh.node);
    return;
  }
  if (s.moe == "parm") input_error("{}: schedule.moe = \"parm\" sends copies of tokens as distinct ones", dispatch);
  if (c.moe.capacity)
    input_error("{}: moe.capacity = {} sends slots of experts, not tokens", dispatch, *c.moe.capacity);
  if (s.rows == "padded") input_error("{}: schedule.rows = \"padded\" sends rows that are no tokens", dispatch);
  if (s.moe == "s2" && s.slice == "rows")
    input_error("{}: schedule.moe = \"s2\" slices rows of experts: set schedule.slice = \"tokens\"", dispatch);
}

void check_experts(const Config& c) {
  check_dispatch(c);
  check_chunks(c);
  const Named experts{"moe.num_experts", c.moe.num_experts};
  const Named chosen{"moe.num_experts_per_tok", c.moe.num_experts_per_tok};
  must_divide({"mesh.ep", c.mesh.ep}, experts);
  must_divide({"mesh.esp", c.mesh.esp}, {"moe.moe_intermediate_size", c.moe.moe_intermediate_size});
  if (c.moe.shared_experts > 0)
    must_divide({"mesh.tp", c.mesh.tp},
                {"moe.shared_experts x moe.moe_intermediate_size", c.moe.shared_experts * c.moe.moe_intermediate_size});
  if (chosen.value > experts.value) input_error("{} is more than {}", chosen.text(), experts.text());
  check_gate(c);
  if ((c.schedule.moe == "ted" || c.schedule.moe == "dtd") && c.mesh.tp != c.mesh.esp)
    input_error("schedule.moe = \"{}\" needs mesh.esp = mesh.tp, but mesh.esp = {} and mesh.tp = {}", c.schedule.moe,
                c.mesh.esp, c.mesh.tp);
  if (c.moe.capacity) check_capacity(c);
  if (c.moe.capacity) check_family_capacity(c);
}

}  // namespace

MeshConfig mesh_to_be(Config c) {
  fill_mesh(c);
  return c.mesh;
}

Config resolve(Config c) {
  check_ranges(c);
  fill(c.model.num_key_value_heads, c.model.num_attention_heads);
  if (!c.moe.aux_coef) c.moe.aux_coef = aux_coef(c);
  fill(c.moe.moe_intermediate_size, c.model.intermediate_size);
  fill_mesh(c);
  fill(c.schedule.chunks_backward, c.schedule.chunks);
  fill(c.train.micro_batch_size, c.train.batch_size / c.mesh.dp);
  fill(c.mesh.threads, std::thread::hardware_concurrency() / (launched() ? c.mesh.node : num_ranks(c)));
  return c;
}

void validate(const Config& config) {
  check_ranges(config);
  expects(config.mesh.esp > 0 && config.mesh.dp > 0 && config.train.micro_batch_size > 0, "validate: resolve first");
  check_model(config);
  check_mesh(config);
  if (num_expert_layers(config) > 0) check_experts(config);
  check_memory(config);
  check_batch(config);
  memory_limit(config);
  check_loss_scale(config);
}

int64_t num_ranks(const Config& c) { return c.mesh.tp * c.mesh.dp; }

int64_t expert_data_ranks(const Config& c) { return num_ranks(c) / (c.mesh.ep * c.mesh.esp); }

bool has_experts(const Config& c, int64_t layer) {
  return c.moe.every > 0 && c.moe.num_experts > 0 && (layer + 1) % c.moe.every == 0;
}

int64_t num_expert_layers(const Config& c) {
  return c.moe.every > 0 && c.moe.num_experts > 0 ? c.model.num_hidden_layers / c.moe.every : 0;
}

int64_t micro_batches(const Config& c) { return c.train.batch_size / (c.train.micro_batch_size * c.mesh.dp); }

int64_t micro_tokens(const Config& c) { return c.train.micro_batch_size * c.train.seq_length; }

int64_t gated_tokens(const Config& c) {
  const bool sliced = c.schedule.moe == "sharded" || c.schedule.moe == "s1" || c.schedule.moe == "auto";
  if (c.schedule.moe == "parm") return micro_tokens(c) * c.mesh.esp;
  return sliced ? micro_tokens(c) / c.mesh.tp : micro_tokens(c);
}

const GateSpec& gate_of(const Config& c) {
  const GateSpec* gate = find_gate(built_in().gates, c.moe.gate);
  expects(gate != nullptr, "moe.gate is one of its allowed values");
  return *gate;
}

double aux_coef(const Config& c) {
  const GateSpec& gate = gate_of(c);
  return gate.loss == AuxLoss::none ? 0 : c.moe.aux_coef.value_or(gate.aux_coef);
}

std::optional<int64_t> memory_limit(const Config& c) {
  if (c.memory.limit == "none") return std::nullopt;
  const std::optional<int64_t> bytes = parse_bytes(c.memory.limit);
  if (!bytes)
    input_error("memory.limit = \"{}\", expected \"none\" or bytes such as \"16GB\", \"24GiB\" or \"16000000000\"",
                c.memory.limit);
  return bytes;
}

int64_t gate_group(const Config& c) { return c.moe.group > 0 ? c.moe.group : gated_tokens(c); }

int64_t expert_capacity(const Config& c, int64_t tokens) {
  expects(c.moe.capacity.has_value(), "expert_capacity: nothing is dropped in this config");
  const double fair = static_cast<double>(tokens * c.moe.num_experts_per_tok) / static_cast<double>(c.moe.num_experts);
  const double room = std::ceil(fair * *c.moe.capacity * (1 - 1e-12));  // 10 x 1.1 is 11, whatever its last bit
  return std::max(static_cast<int64_t>(room), c.moe.min_capacity);
}

}  // namespace plait
