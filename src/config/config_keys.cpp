#include "config/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace

std::string slicers(const Config& c) {
  const std::string names = family_names(c, [](const FamilySpec& f) { return f.cuts_rows(); });
  return names + (names.find(' ') == std::string::npos ? " slices" : " slice");
}

namespace {

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
      {{"mesh.tp", &c.mesh.tp, kRanks, "ranks that share every head and feed-forward", {}},
       {"mesh.ep", &c.mesh.ep, kRanks, "ranks that share the list of experts", {}},
       {"mesh.esp", &c.mesh.esp, kRanksOrZero, "ranks that share one expert; 0: as mesh.tp", {}},
       {"mesh.dp",
        &c.mesh.dp,
        kRanksOrZero,
        "ranks that share the batch; 0: what the launcher started / tp, else max(1, ep * esp / tp)",
        {}},
       {"mesh.node",
        &c.mesh.node,
        kRanksOrZero,
        "ranks of a node of the network; 0: as the launcher tells, else all",
        {}},
       {"mesh.threads",
        &c.mesh.threads,
        kRanksOrZero,
        "threads of a rank; 0: the cores that the run may use / ranks",
        {}},
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
        kPath,
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
               {"train.init", &c.init, kPath, "checkpoint, or its folder, whose weights a run begins with", {}}});
}

void add_files(std::vector<Key>& keys, Config& c) {
  using enum Bounds;
  keys.insert(keys.end(),
              {{"data.path", &c.data.path, kPath, "text: a file, a folder or a list of files", {}},
               {"data.validation", &c.data.validation, kFraction, "share at the end that only evaluates", {}},
               {"log.dir", &c.log.dir, kPath, "folder of metrics, curve, config and checkpoints", {}},
               {"log.every", &c.log.every, kCount, "steps between lines, printed and in metrics.jsonl", {}},
               {"log.timeout", &c.log.timeout, kPositive, "seconds a rank waits for the others", {}}});
}

struct Span {
  int64_t least, most;
};

// Of integers.
Span span_of(Bounds range) {
  switch (range) {
    case Bounds::kCount: return {1, kLargestCount};
    case Bounds::kCountOrZero: return {0, kLargestCount};
    case Bounds::kRanks: return {1, kMostRanks};
    case Bounds::kRanksOrZero: return {0, kMostRanks};
    default: return {0, std::numeric_limits<int64_t>::max()};
  }
}

bool holds(Bounds range, int64_t value) {
  const Span span = span_of(range);
  return value >= span.least && value <= span.most;
}

bool holds(Bounds range, double value) {
  if (range == Bounds::kFraction) return value >= 0 && value < 1;
  return std::isfinite(value) && (range == Bounds::kPositive ? value > 0 : value >= 0);
}

std::string integer_text(Bounds range) {
  const Span span = span_of(range);
  return fmt::format("an integer of {} to {}", span.least, span.most);
}

std::string real_text(Bounds range) {
  if (range == Bounds::kFraction) return "a number of at least 0 and below 1";
  return range == Bounds::kPositive ? "a finite number above 0" : "a finite number of at least 0";
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
  return std::visit(
      Cases{[&](int64_t*) { return integer_text(key.range) + or_word(key, " or "); },
            [&](double*) { return real_text(key.range); }, [](bool*) -> std::string { return "true or false"; },
            [&](std::string*) {
              return key.words.empty() ? "a word in quotes" : "one of " + join(quoted(key.words), ", ");
            },
            [&](const OneOf&) { return "one of " + join(quoted(key.words), ", "); },
            [&](std::optional<double>*) { return real_text(key.range) + or_word(key, " or "); },
            [](std::array<double, 2>*) -> std::string { return "two numbers of at least 0 and below 1 in brackets"; },
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
      Cases{[&](int64_t* v) { return holds(key.range, *v); }, [&](double* v) { return holds(key.range, *v); },
            [](bool*) { return true; },
            [&](std::string* v) {
              return key.words.empty() ? !v->empty() : std::ranges::find(key.words, *v) != key.words.end();
            },
            [&](const OneOf& v) { return std::ranges::find(key.words, v.name()) != key.words.end(); },
            [&](std::optional<double>* v) { return !*v || holds(key.range, **v); },
            [&](std::array<double, 2>* v) { return holds(key.range, (*v)[0]) && holds(key.range, (*v)[1]); },
            [](std::vector<std::string>* v) { return !v->empty() && std::ranges::none_of(*v, &std::string::empty); }},
      key.slot);
}

void copy_value(const Key& from, const Key& to) {
  std::visit(Cases{[&](const OneOf& v) {
                     const auto word = std::ranges::find(from.words, v.name());
                     std::get<OneOf>(to.slot).take(static_cast<size_t>(word - from.words.begin()));
                   },
                   [&]<class T>(T* v) { *std::get<T*>(to.slot) = *v; }},
             from.slot);
}

}  // namespace plait
