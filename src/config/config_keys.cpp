#include "config/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "config/catalogue.h"

namespace plait {
namespace {

constexpr int64_t kLargestCount = int64_t{1} << 31;

template <class... Ts>
struct Cases : Ts... {
  using Ts::operator()...;
};

// What each gate of the catalogue does.
std::vector<std::string_view> gate_helps(const Catalogue& catalogue) {
  std::vector<std::string_view> all;
  for (const GateSpec* gate : catalogue.gates) all.push_back(gate->help);
  return all;
}

// "s1 and s2": the families of which this is so.
std::string family_names(const Config& c, bool (*is_so)(const FamilySpec&)) {
  std::vector<std::string> names;
  for (const FamilySpec* family : c.catalogue->families)
    if (is_so(*family)) names.emplace_back(family->name);
  if (names.size() < 2) return join(names, "");
  const std::string last = names.back();
  names.pop_back();
  return join(names, ", ") + " and " + last;
}

// "s2 slices"
std::string slicers(const Config& c) {
  const std::string names = family_names(c, [](const FamilySpec& f) { return f.cuts_rows(); });
  return names + (names.find(' ') == std::string::npos ? " slices" : " slice");
}

void add_model(std::vector<Key>& keys, ModelConfig& c, const Catalogue& catalogue) {
  using enum Bounds;
  keys.insert(
      keys.end(),
      {key_of("model.architecture", c.architecture, catalogue.architectures, "the blocks of a layer and their norms"),
       {"model.vocab_size", &c.vocab_size, kCount, "number of token ids", {}},
       {"model.hidden_size", &c.hidden_size, kCount, "width of the residual stream", {}},
       {"model.num_hidden_layers", &c.num_hidden_layers, kCount, "layers, each attention and feed-forward", {}},
       {"model.num_attention_heads", &c.num_attention_heads, kCount, "query heads", {}},
       {"model.num_key_value_heads",
        &c.num_key_value_heads,
        kCountOrZero,
        "key and value heads; 0: as query heads",
        {}},
       {"model.intermediate_size", &c.intermediate_size, kCount, "width inside a dense feed-forward", {}},
       key_of("model.hidden_act", c.hidden_act, "activation of the feed-forward"),
       {"model.glu", &c.glu, kAny, "gated feed-forward: act(gate) * up", {}},
       {"model.rms_norm_eps", &c.rms_norm_eps, kPositive, "added to the mean square in RMSNorm", {}},
       {"model.rope_theta", &c.rope_theta, kPositive, "base of the rotary frequencies", {}},
       {"model.tie_word_embeddings", &c.tie_word_embeddings, kAny, "the head uses the embedding's matrix", {}}});
}

void add_moe(std::vector<Key>& keys, MoeConfig& c, const Catalogue& catalogue) {
  using enum Bounds;
  keys.insert(
      keys.end(),
      {{"moe.every", &c.every, kCountOrZero, "layer l has experts when (l+1) % every == 0; 0: no layer has", {}},
       {"moe.num_experts", &c.num_experts, kCountOrZero, "experts of a layer; 0: no layer has any", {}},
       {"moe.num_experts_per_tok", &c.num_experts_per_tok, kCount, "experts that each token goes to", {}},
       {"moe.moe_intermediate_size",
        &c.moe_intermediate_size,
        kCountOrZero,
        "width inside an expert; 0: model.intermediate_size",
        {}},
       key_of("moe.gate", c.gate, catalogue.gates,
              fmt::format("who chooses: {}", fmt::join(gate_helps(catalogue), ", "))),
       key_of("moe.order", c.order, "softmax over all experts before the top-k, or over the chosen ones after it"),
       key_of("moe.normalize", c.normalize, "renormalise the chosen weights before dropping, after, or never"),
       key_of("moe.sample", c.sample, "in training, draw the Switch choice or GShard's second one by Gumbel noise"),
       {"moe.jitter", &c.jitter, kFraction, "in training, factors 1 - jitter to 1 + jitter on the gate's input", {}},
       {"moe.expert_groups", &c.expert_groups, kCount, "sigmoid gate: groups that the experts are cut into", {}},
       {"moe.kept_groups", &c.kept_groups, kCount, "sigmoid gate: groups, by their two best, that may be chosen", {}},
       {"moe.routed_scaling", &c.routed_scaling, kPositive, "sigmoid gate: factor of every weight", {}},
       {"moe.bias_rate", &c.bias_rate, kNotNegative, "sigmoid gate: step of the bias against the load", {}},
       {"moe.shared_experts", &c.shared_experts, kCountOrZero, "experts that every token goes to besides", {}},
       {"moe.capacity",
        &c.capacity,
        kPositive,
        "rows an expert takes per fair share; none: nothing is dropped, as in evaluation",
        {"none"}},
       {"moe.min_capacity", &c.min_capacity, kCountOrZero, "an expert takes at least so many rows", {}},
       key_of("moe.drop", c.drop, "who stays over capacity: the most probable, the first, or random ones", 1),
       {"moe.group", &c.group, kCountOrZero, "tokens that share a capacity; rank: those that one rank gates", {"rank"}},
       {"moe.aux_coef",
        &c.aux_coef,
        kNotNegative,
        "weight of the load-balancing loss; auto: 0.01, and 0 for the sigmoid gate, whose loss is of each sequence",
        {"auto"}},
       key_of("moe.aux_scope", c.aux_scope,
              "tokens that the load-balancing loss averages: all of the micro-batch, or those that one rank gates"),
       {"moe.z_coef", &c.z_coef, kNotNegative, "weight of the gate's z-loss", {}}});
}

void add_running(std::vector<Key>& keys, Config& c) {
  using enum Bounds;
  keys.insert(
      keys.end(),
      {{"mesh.tp", &c.mesh.tp, kCount, "ranks that share every head and feed-forward", {}},
       {"mesh.ep", &c.mesh.ep, kCount, "ranks that share the list of experts", {}},
       {"mesh.esp", &c.mesh.esp, kCountOrZero, "ranks that share one expert; 0: as mesh.tp", {}},
       {"mesh.dp",
        &c.mesh.dp,
        kCountOrZero,
        "ranks that share the batch; 0: what the launcher started / tp, else max(1, ep * esp / tp)",
        {}},
       {"mesh.node",
        &c.mesh.node,
        kCountOrZero,
        "ranks of a node of the network; 0: as the launcher tells, else all",
        {}},
       {"mesh.threads", &c.mesh.threads, kCountOrZero, "threads of a rank; 0: cores / ranks", {}},
       key_of("schedule.moe", c.schedule.moe, c.catalogue->families,
              "family of the MoE schedule; auto: with fuse, chunks and order, what is fastest on schedule.machine, by "
              "trial",
              "auto"),
       key_of("schedule.fuse", c.schedule.fuse,
              "exchange and gather of rows in one message; auto: in " +
                  family_names(c, [](const FamilySpec& f) { return f.fuses == FamilySpec::Fuses::usually; })),
       key_of("schedule.dispatch", c.schedule.dispatch,
              "rows cross the network at once, between nodes and then within, or once for each node of a token"),
       key_of("schedule.rows", c.schedule.rows, "rows of an expert as they come, or as many as the busiest one has"),
       key_of("schedule.slice", c.schedule.slice,
              fmt::format("what {} behind the gate: rows (as published), or tokens with their routes", slicers(c))),
       {"schedule.chunks", &c.schedule.chunks, kCount, "parts of the rows that travel one after another", {}},
       {"schedule.chunks_backward",
        &c.schedule.chunks_backward,
        kCountOrZero,
        "the same in the backward pass; 0: as schedule.chunks",
        {}},
       {"schedule.lanes", &c.schedule.lanes, kAny, "messages travel while the rank computes", {}},
       key_of("schedule.order", c.schedule.order, "of the steps: as written, or such that computing hides messages"),
       {"schedule.bucket",
        &c.schedule.bucket,
        kNotNegative,
        "MiB of gradients that are summed in one message; 0: all",
        {}},
       {"schedule.machine",
        &c.schedule.machine,
        kAny,
        "file of the machine that schedules are planned for (`plait bench collectives --out`); default: a laptop",
        {}},
       {"schedule.trials",
        &c.schedule.trials,
        kCountOrZero,
        "schedules that a run tries before auto takes the fastest; 0: it takes what is predicted to be",
        {}},
       {"memory.limit", &c.memory.limit, kAny, "bytes of a rank, as 16GB or 24GiB; none: no limit", {}}});
}

void add_memory(std::vector<Key>& keys, MemoryConfig& c) {
  using enum Bounds;
  keys.insert(
      keys.end(),
      {{"memory.zero",
        &c.zero,
        kCountOrZero,
        "shared out among ranks that would hold the same: 0 nothing, 1 parameters and moments, gathered once "
        "a step, 3 the same, gathered in each layer",
        {}},
       key_of("memory.recompute", c.recompute, "what backward reads and a layer makes again instead of keeping it"),
       key_of("memory.keep_moves", c.keep_moves,
              "messages whose results are kept, so that recomputation sends nothing again"),
       {"memory.tile", &c.tile, kCount, "parameters that the optimizer updates at once", {}},
       key_of("memory.grad_dtype", c.grad_dtype, "of the sums of gradients; param: as train.dtype")});
}

void add_optim(std::vector<Key>& keys, OptimConfig& c) {
  using enum Bounds;
  keys.insert(keys.end(),
              {key_of("optim.name", c.name, "optimizer"),
               {"optim.lr", &c.lr, kPositive, "learning rate after the warm-up", {}},
               {"optim.min_lr", &c.min_lr, kNotNegative, "learning rate at the last step (cosine)", {}},
               {"optim.warmup_steps", &c.warmup_steps, kCountOrZero, "steps of linear rise", {}},
               {"optim.weight_decay", &c.weight_decay, kNotNegative, "decoupled decay, of matrices only", {}},
               {"optim.betas", &c.betas, kFraction, "decay of the two moments", {}},
               {"optim.eps", &c.eps, kPositive, "added to the root of the second moment", {}},
               {"optim.clip", &c.clip, kNotNegative, "largest global gradient norm; 0: no clipping", {}}});
}

void add_train(std::vector<Key>& keys, TrainConfig& c) {
  using enum Bounds;
  keys.insert(keys.end(),
              {{"train.steps", &c.steps, kCount, "optimizer steps", {}},
               {"train.batch_size", &c.batch_size, kCount, "sequences of one step, over all ranks", {}},
               {"train.micro_batch_size",
                &c.micro_batch_size,
                kCountOrZero,
                "sequences a data rank computes at once; 0: batch_size / dp",
                {}},
               {"train.seq_length", &c.seq_length, kCount, "positions of a sequence", {}},
               {"train.seed", &c.seed, kNotNegative, "of initial weights and batches", {}},
               key_of("train.dtype", c.dtype, "of computation; 2-byte types keep float32 parameters, gates and losses"),
               {"train.initial_scale_power",
                &c.initial_scale_power,
                kCountOrZero,
                "float16: the loss starts scaled by 2 to this power",
                {}},
               {"train.loss_scale_window",
                &c.loss_scale_window,
                kCount,
                "float16: steps without overflow before the scale doubles",
                {}},
               {"train.hysteresis", &c.hysteresis, kCount, "float16: overflows before the scale halves", {}},
               {"train.min_loss_scale", &c.min_loss_scale, kPositive, "float16: the scale never falls below", {}},
               {"train.eval_every", &c.eval_every, kCountOrZero, "steps between evaluations; 0: never", {}},
               {"train.eval_batches", &c.eval_batches, kCount, "batches of train.batch_size in an evaluation", {}},
               {"train.save_every", &c.save_every, kCountOrZero, "steps between checkpoints; 0: by time alone", {}},
               {"train.save_interval",
                &c.save_interval,
                kAny,
                "time between checkpoints, as 90s, 10m, 1h30m; none: by steps alone. One is written at the end, too",
                {}},
               {"train.max_time",
                &c.max_time,
                kAny,
                "the run saves and ends before so much time has passed since it was started, as 7h50m; none: no limit",
                {}},
               key_of("train.on_term", c.on_term,
                      "code of a run that SIGTERM, SIGUSR1 or train.max_time ended: that of the signal (0 for the "
                      "time), or 75, by which a scheduler may start it again"),
               {"train.init", &c.init, kAny, "checkpoint, or its folder, whose weights a run begins with", {}}});
}

void add_files(std::vector<Key>& keys, Config& c) {
  using enum Bounds;
  keys.insert(keys.end(),
              {{"data.path", &c.data.path, kAny, "text: a file, a folder or a list of files", {}},
               {"data.validation", &c.data.validation, kFraction, "share at the end that only evaluates", {}},
               {"log.dir", &c.log.dir, kAny, "folder of metrics, curve, config and checkpoints", {}},
               {"log.every", &c.log.every, kCount, "steps between lines, printed and in metrics.jsonl", {}},
               {"log.timeout", &c.log.timeout, kPositive, "seconds a rank waits for the others", {}}});
}

bool holds(Bounds range, double value) {
  switch (range) {
    case Bounds::kAny: return true;
    case Bounds::kCount: return value >= 1 && value <= kLargestCount;
    case Bounds::kCountOrZero: return value >= 0 && value <= kLargestCount;
    case Bounds::kPositive: return value > 0 && std::isfinite(value);
    case Bounds::kNotNegative: return value >= 0 && std::isfinite(value);
    case Bounds::kFraction: return value >= 0 && value < 1;
  }
  return false;
}

std::string range_text(Bounds range) {
  switch (range) {
    case Bounds::kAny: return "";
    case Bounds::kCount: return " of at least 1";
    case Bounds::kCountOrZero:
    case Bounds::kNotNegative: return " of at least 0";
    case Bounds::kPositive: return " above 0";
    case Bounds::kFraction: return " of at least 0 and below 1";
  }
  return "";
}

// A path may hold bytes that no text file can: those stand in it by their numbers.
std::string path_text(const std::string& value) {
  const bool plain = is_utf8(value) && !value.starts_with(kBytes) &&
                     std::ranges::none_of(value, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
  return json_quoted(plain ? value : std::string(kBytes) + percent_encoded(value));
}

std::string number_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::vector<std::string> quoted(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) out.push_back(json_quoted(word));
  return out;
}

std::string or_word(const Key& key, std::string_view between) {
  return key.words.empty() ? "" : fmt::format("{}{}", between, json_quoted(key.words[0]));
}

bool has_expert_layers(const Config& c) {
  return c.moe.every > 0 && c.moe.num_experts > 0 && c.moe.every <= c.model.num_hidden_layers;
}

}  // namespace

std::vector<Key> keys_of(Config& config) {
  std::vector<Key> keys;
  add_model(keys, config.model, *config.catalogue);
  add_moe(keys, config.moe, *config.catalogue);
  add_running(keys, config);
  add_memory(keys, config.memory);
  add_optim(keys, config.optim);
  add_train(keys, config.train);
  add_files(keys, config);
  return keys;
}

std::string type_text(const Key& key) {
  return std::visit(
      Cases{[&](int64_t*) { return "integer" + or_word(key, " | "); }, [](double*) -> std::string { return "number"; },
            [](bool*) -> std::string { return "true | false"; },
            [&](std::string*) { return key.words.empty() ? "word" : join(quoted(key.words), " | "); },
            [&](const OneOf&) { return join(quoted(key.words), " | "); },
            [&](std::optional<double>*) { return "number" + or_word(key, " | "); },
            [](std::array<double, 2>*) -> std::string { return "[number, number]"; },
            [](std::vector<std::string>*) -> std::string { return "word | [words]"; }},
      key.slot);
}

std::string expected_text(const Key& key) {
  const std::string range = range_text(key.range);
  return std::visit(
      Cases{[&](int64_t*) { return "an integer" + range + or_word(key, " or "); },
            [&](double*) { return "a number" + range; }, [](bool*) -> std::string { return "true or false"; },
            [&](std::string*) {
              return key.words.empty() ? "a word in quotes" : "one of " + join(quoted(key.words), ", ");
            },
            [&](const OneOf&) { return "one of " + join(quoted(key.words), ", "); },
            [&](std::optional<double>*) { return "a number" + range + or_word(key, " or "); },
            [&](std::array<double, 2>*) { return "two numbers" + range + " in brackets"; },
            [](std::vector<std::string>*) -> std::string { return "a word in quotes, or several in brackets"; }},
      key.slot);
}

std::string value_text(const Key& key) {
  return std::visit(
      Cases{
          [&](int64_t* v) { return *v == 0 && !key.words.empty() ? json_quoted(key.words[0]) : std::to_string(*v); },
          [](double* v) { return number_text(*v); }, [](bool* v) -> std::string { return *v ? "true" : "false"; },
          [](std::string* v) { return path_text(*v); }, [](const OneOf& v) { return json_quoted(v.name()); },
          [&](std::optional<double>* v) { return *v ? number_text(**v) : json_quoted(key.words[0]); },
          [](std::array<double, 2>* v) { return fmt::format("[{}, {}]", number_text((*v)[0]), number_text((*v)[1])); },
          [](std::vector<std::string>* v) {
            std::vector<std::string> paths;
            for (const std::string& path : *v) paths.push_back(path_text(path));
            return paths.size() == 1 ? paths[0] : "[" + join(paths, ", ") + "]";
          }},
      key.slot);
}

bool in_range(const Key& key) {
  return std::visit(
      Cases{[&](int64_t* v) { return holds(key.range, static_cast<double>(*v)); },
            [&](double* v) { return holds(key.range, *v); }, [](bool*) { return true; },
            [&](std::string* v) {
              return key.words.empty() ? !v->empty() : std::ranges::find(key.words, *v) != key.words.end();
            },
            [&](const OneOf& v) { return std::ranges::find(key.words, v.name()) != key.words.end(); },
            [&](std::optional<double>* v) { return !*v || holds(key.range, **v); },
            [&](std::array<double, 2>* v) { return holds(key.range, (*v)[0]) && holds(key.range, (*v)[1]); },
            [](std::vector<std::string>* v) { return !v->empty() && std::ranges::none_of(*v, &std::string::empty); }},
      key.slot);
}

namespace {

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
  if (!experts && !is_any("moe.every", "moe.num_experts") &&
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

}  // namespace plait
