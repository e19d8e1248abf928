// What follows from a config: derived defaults, derived numbers, and the layouts that no set of ranks can hold.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/errors.h"
#include "base/units.h"
#include "config/architecture.h"
#include "config/catalogue.h"
#include "config/checks.h"
#include "config/config.h"
#include "config/config_keys.h"
#include "launch/limits.h"

namespace plait {
namespace {

// 0 is to be derived.
void fill(int64_t& field, int64_t value) {
  if (field == 0) field = std::max<int64_t>(1, value);
}

void fill_mesh(Config& c) {
  fill(c.mesh.esp, num_expert_layers(c) > 0 ? c.mesh.tp : 1);
  fill(c.mesh.dp, c.mesh.ep * c.mesh.esp / c.mesh.tp);
  fill(c.mesh.node, num_ranks(c));
}

void check_ranges(Config config) {
  for (const Key& key : keys_of(config)) {
    if (!in_range(key)) input_error("{} = {}, expected {}", key.name, value_text(key), expected_text(key));
  }
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

// Numbers are counted in bytes, in 64 bits. No machine has a thousandth of so many.
constexpr double kMostNumbers = 0x1p52;

void expect_countable(double numbers, std::string_view what, std::string_view ways) {
  if (numbers > kMostNumbers) input_error("{:.1e} {} are more than any machine holds: lower {}", numbers, what, ways);
}

void check_size(const Config& c) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const double width = real(c.model.hidden_size), layers = real(c.model.num_hidden_layers);
  const bool experts = num_expert_layers(c) > 0;
  const double ffn = 3 * real(c.model.intermediate_size), expert = experts ? 3 * real(c.moe.moe_intermediate_size) : 0;
  const double of_experts = experts ? expert * (real(c.moe.num_experts) + real(c.moe.shared_experts)) : 0;
  expect_countable(layers * width * (4 * width + ffn + of_experts) + 2 * width * real(c.model.vocab_size), "parameters",
                   "model.hidden_size, model.num_hidden_layers, widths or experts");
  const double tokens = real(c.train.batch_size) * real(c.train.seq_length);
  const double rows = experts ? real(c.moe.num_experts_per_tok) + real(c.moe.shared_experts) : 0;
  expect_countable(tokens * (layers * (8 * width + ffn + rows * (2 * width + expert)) + real(c.model.vocab_size)),
                   "activations", "train.batch_size, train.seq_length or the model");
  if (micro_batches(c) > std::numeric_limits<int32_t>::max())
    input_error("{} micro-batches of a step: raise train.micro_batch_size", micro_batches(c));
}

void check_loss_scale(const Config& c) {
  if (c.train.dtype == RunType::float16 && c.train.initial_scale_power > 60)
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

// All copies of a token must be kept.
void check_copies_capacity(const Config& c) {
  const int64_t group = gate_group(c), room = expert_capacity(c, group);
  if (family_of(c).copies() && c.mesh.tp > 1 && room < group)
    input_error(
        "schedule.moe = \"{}\" gates mesh.tp = {} copies of each token, which must all be kept, but moe.capacity = {} "
        "gives an expert {} slots for the {} tokens of a group: raise it, or set \"none\"",
        family_of(c).name, c.mesh.tp, *c.moe.capacity, room, group);
}

FamilyLayout family_layout(const Config& c) {
  return {.family = family_of(c),
          .tp = c.mesh.tp,
          .esp = c.mesh.esp,
          .node = c.mesh.node,
          .dispatch = c.schedule.dispatch,
          .slots = c.moe.capacity.has_value(),
          .cuts_rows = c.schedule.slice == Sliced::rows,
          .fuses = fuses(c, family_of(c))};
}

// `refusal`: empty, or what a family says.
void expect_none(const std::string& refusal, std::string_view before = "") {
  if (!refusal.empty()) input_error("{}{}", before, refusal);
}

void check_gate(const Config& c) {
  const GateSpec& gate = *c.moe.gate;
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
  const std::string_view family = family_of(c).name;
  if (!family_of(c).copies() || c.mesh.tp == 1) return;
  if (chooser != Chooser::token)
    input_error(
        "moe.gate = \"{}\" decides over groups of tokens, but schedule.moe = \"{}\" gates mesh.tp = {} copies of them",
        gate.name, family, c.mesh.tp);
  if (gate.noise)
    input_error(
        "schedule.moe = \"{}\" gates mesh.tp = {} copies of each token, which the noise of moe.gate = \"{}\" would "
        "send different ways",
        family, c.mesh.tp, gate.name);
  if (c.moe.sample != Sample::none || c.moe.jitter > 0)
    input_error(
        "schedule.moe = \"{}\" gates mesh.tp = {} copies of each token, which moe.sample = \"{}\" and moe.jitter = "
        "{} would send different ways",
        family, c.mesh.tp, word(c.moe.sample), c.moe.jitter);
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
  if (s.dispatch == Dispatch::direct) return;
  const std::string dispatch = fmt::format("schedule.dispatch = \"{}\"", word(s.dispatch));
  if (c.mesh.ep * c.mesh.esp <= c.mesh.node)
    input_error("{} is for experts on several nodes, but mesh.ep x mesh.esp = {} ranks lie within mesh.node = {}",
                dispatch, c.mesh.ep * c.mesh.esp, c.mesh.node);
  if (c.mesh.esp > c.mesh.node)
    input_error("{} needs every expert within a node, but mesh.esp = {} is more than mesh.node = {}", dispatch,
                c.mesh.esp, c.mesh.node);
  expect_none(dispatch_refusal(family_layout(c)), dispatch + ": ");
  if (s.dispatch == Dispatch::levels) return;
  if (c.moe.capacity)
    input_error("{}: moe.capacity = {} sends slots of experts, not tokens", dispatch, *c.moe.capacity);
  if (s.rows == RowFill::padded) input_error("{}: schedule.rows = \"padded\" sends rows that are no tokens", dispatch);
  expect_none(slice_refusal(family_layout(c)), dispatch + ": ");
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
  expect_none(esp_refusal(family_layout(c)));
  if (!c.moe.capacity) return;
  check_capacity(c);
  check_copies_capacity(c);
  expect_none(slots_refusal(family_layout(c)));
}

}  // namespace

void fill_from(const Launch& launch, Config& c) {
  if (!launch.launched()) return;
  fill(c.mesh.dp, launch.ranks / c.mesh.tp);
  const int64_t node = launch.ranks_per_node;
  fill(c.mesh.node, node > 0 && node < num_ranks(c) ? node : num_ranks(c));
  if (launch.cores > 0) fill(c.mesh.threads, launch.cores / c.mesh.node);
}

void expect_started(const Launch& launch, const Config& c) {
  const int64_t experts = c.mesh.ep * c.mesh.esp;
  if (!launch.launched() || num_ranks(c) % experts == 0) return;
  const int64_t needed = std::max(c.mesh.tp, experts);
  input_error(
      "{} rank{} started, {} or a multiple needed: mesh.ep x mesh.esp = {} x {}; start so many (mpirun -n {}), or "
      "change "
      "the mesh",
      launch.ranks, launch.ranks == 1 ? "" : "s", needed, c.mesh.ep, c.mesh.esp, needed);
}

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
  fill(c.mesh.threads, launch::usable_cores() / num_ranks(c));
  return c;
}

void validate(const Config& config) {
  if (num_ranks(config) > kMostRanks)
    input_error("mesh.tp x mesh.dp = {} x {} are {} ranks, expected at most {}", config.mesh.tp, config.mesh.dp,
                num_ranks(config), kMostRanks);
  check_ranges(config);
  expects(config.mesh.esp > 0 && config.mesh.dp > 0 && config.train.micro_batch_size > 0, "validate: resolve first");
  check_size(config);
  config.model.architecture->check(config);
  check_mesh(config);
  if (num_expert_layers(config) > 0) check_experts(config);
  check_memory(config);
  check_batch(config);
  memory_limit(config);
  save_interval(config);
  max_time(config);
  check_loss_scale(config);
}

const FamilySpec& reference_family(const Config& c) { return *c.catalogue->families.front(); }

const FamilySpec& family_of(const Config& c) { return c.schedule.moe ? *c.schedule.moe : reference_family(c); }

bool fuses(const Config& c, const FamilySpec& family) {
  if (c.schedule.fuse == Fusing::by_family) return family.fuses == FamilySpec::Fuses::usually;
  return c.schedule.fuse == Fusing::yes;
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

int64_t gated_tokens(const Config& c) { return family_of(c).gated(micro_tokens(c), c.mesh.tp, c.mesh.esp); }

double aux_coef(const Config& c) {
  const GateSpec& gate = *c.moe.gate;
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

namespace {

std::optional<double> seconds_of(std::string_view name, const std::string& text) {
  if (text == "none") return std::nullopt;
  const std::optional<double> seconds = parse_seconds(text);
  if (!seconds)
    input_error("{} = \"{}\", expected \"none\" or a time such as \"90s\", \"10m\" or \"7h50m\"", name, text);
  return seconds;
}

}  // namespace

std::optional<double> save_interval(const Config& c) {
  return seconds_of("train.save_interval", c.train.save_interval);
}

std::optional<double> max_time(const Config& c) { return seconds_of("train.max_time", c.train.max_time); }

int64_t gate_group(const Config& c) { return c.moe.group > 0 ? c.moe.group : gated_tokens(c); }

int64_t expert_capacity(const Config& c, int64_t tokens) {
  expects(c.moe.capacity.has_value(), "expert_capacity: nothing is dropped in this config");
  const double fair = static_cast<double>(tokens * c.moe.num_experts_per_tok) / static_cast<double>(c.moe.num_experts);
  const double room = std::ceil(fair * *c.moe.capacity * (1 - 1e-12));  // 10 x 1.1 is 11, whatever its last bit
  return std::max(static_cast<int64_t>(room), c.moe.min_capacity);
}

}  // namespace plait
