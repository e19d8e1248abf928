// What a run is told: one struct per section of the TOML file, the defaults written as initialisers. Every key is
// described once, in config_keys.cpp; reading, overriding, listing, printing and saving all go through that table. Read
// once at start-up: load_config -> resolve -> validate; after that a Config is only looked at.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/architecture.h"
#include "config/catalogue.h"
#include "config/choices.h"
#include "families/all.h"
#include "gates/all/record.h"
#include "launch/launch.h"

namespace plait {

struct ModelConfig {
  const Architecture* architecture = &architectures::mixtral;
  int64_t vocab_size = 256;
  int64_t hidden_size = 128;
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 0;  // 0: as many as attention heads
  int64_t intermediate_size = 512;
  Act hidden_act = Act::silu;
  bool glu = true;
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000;
  bool tie_word_embeddings = true;
  bool operator==(const ModelConfig&) const = default;
};

struct MoeConfig {
  int64_t every = 1;  // 0: dense
  int64_t num_experts = 8;
  int64_t num_experts_per_tok = 2;
  int64_t moe_intermediate_size = 0;  // 0: model.intermediate_size
  const GateSpec* gate = &softmax_gate;
  GateOrder order = GateOrder::softmax_first;
  Normalize normalize = Normalize::before;
  Sample sample = Sample::none;
  double jitter = 0;
  int64_t expert_groups = 1;
  int64_t kept_groups = 1;
  double routed_scaling = 1;
  double bias_rate = 0.001;
  int64_t shared_experts = 0;
  std::optional<double> capacity;  // empty: "none", nothing is dropped
  int64_t min_capacity = 4;
  Drop drop = Drop::probs;
  int64_t group = 0;               // 0: "rank", the tokens one rank gates
  std::optional<double> aux_coef;  // empty: "auto", see aux_coef()
  AuxScope aux_scope = AuxScope::global;
  double z_coef = 0;
  bool operator==(const MoeConfig&) const = default;
};

struct MeshConfig {
  int64_t tp = 1;
  int64_t ep = 1;
  int64_t esp = 0;      // 0: tp
  int64_t dp = 0;       // 0: max(1, ep * esp / tp)
  int64_t node = 0;     // ranks of a node; 0: all
  int64_t threads = 0;  // per rank; 0: cores / ranks, at least 1
  bool operator==(const MeshConfig&) const = default;
};

struct ScheduleConfig {
  const FamilySpec* moe = &families::sharded;  // null: "auto"
  Fusing fuse = Fusing::by_family;
  Dispatch dispatch = Dispatch::direct;
  RowFill rows = RowFill::counted;
  Sliced slice = Sliced::rows;
  int64_t chunks = 1;
  int64_t chunks_backward = 0;  // 0: chunks
  bool lanes = false;
  StepOrder order = StepOrder::written;
  double bucket = 0;  // MiB; 0: all gradients in one message
  std::string machine = "default";
  int64_t trials = 16;
  bool operator==(const ScheduleConfig&) const = default;
};

struct MemoryConfig {
  int64_t zero = 0;
  Recompute recompute = Recompute::none;
  KeepMoves keep_moves = KeepMoves::all;
  std::string limit = "none";             // of a rank: "16GB", "24 GiB", "16000000000"
  int64_t tile = 178956971;               // parameters updated at once
  SumType grad_dtype = SumType::float32;  // what gradients are added up in
  bool operator==(const MemoryConfig&) const = default;
};

struct OptimConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double lr = 1e-3;
  double min_lr = 1e-4;
  int64_t warmup_steps = 20;
  double weight_decay = 0.1;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double clip = 1;  // 0: no clipping
  bool operator==(const OptimConfig&) const = default;
};

struct TrainConfig {
  int64_t steps = 100;
  int64_t batch_size = 16;       // sequences in the world
  int64_t micro_batch_size = 0;  // sequences per data rank; 0: batch_size / dp
  int64_t seq_length = 128;
  int64_t seed = 1;
  RunType dtype = RunType::float32;
  int64_t initial_scale_power = 16;  // float16: the loss starts scaled by 2 to this power
  int64_t loss_scale_window = 1000;  // steps without overflow before the scale doubles
  int64_t hysteresis = 2;            // overflows before it halves
  double min_loss_scale = 1;
  int64_t eval_every = 50;  // 0: never
  int64_t eval_batches = 8;
  int64_t save_every = 0;             // steps; 0: by time alone
  std::string save_interval = "10m";  // "none": by steps alone
  std::string max_time = "none";      // since the program began
  OnTerm on_term = OnTerm::exit;
  std::string init = "none";  // a checkpoint whose weights the run begins with
  bool operator==(const TrainConfig&) const = default;
};

struct DataConfig {
  std::vector<std::string> path = {"data/shakespeare.txt"};
  double validation = 0.1;
  bool operator==(const DataConfig&) const = default;
};

struct LogConfig {
  std::string dir = "runs/default";
  int64_t every = 1;
  double timeout = 300;  // seconds
  bool operator==(const LogConfig&) const = default;
};

// The catalogue that a config was read with. No part of what the config says: all compare equal.
class ReadWith {
 public:
  ReadWith(const Catalogue& catalogue = built_in()) : catalogue_(&catalogue) {}
  const Catalogue& operator*() const { return *catalogue_; }
  const Catalogue* operator->() const { return catalogue_; }
  bool operator==(const ReadWith&) const { return true; }

 private:
  const Catalogue* catalogue_;
};

// Keys that were set and change nothing in this configuration, with the reason; but for those that say what happens
// anyway. No part of what the config says: all compare equal.
struct IdleKeys {
  struct Key {
    std::string name, why;
  };
  std::vector<Key> keys;
  bool operator==(const IdleKeys&) const { return true; }
};

struct Config {
  ModelConfig model;
  MoeConfig moe;
  MeshConfig mesh;
  ScheduleConfig schedule;
  MemoryConfig memory;
  OptimConfig optim;
  TrainConfig train;
  DataConfig data;
  LogConfig log;
  ReadWith catalogue;
  IdleKeys idle;
  bool operator==(const Config&) const = default;
};

// One line of `plait config`; all texts are ready to print.
struct KeyInfo {
  std::string name;  // "section.key"
  std::string type;
  std::string default_value;
  std::string meaning;
};
std::vector<KeyInfo> config_keys(const Catalogue& catalogue = built_in());

// Reads a file and then overrides ("section.key=value"); an empty path starts from the defaults. Throws InputError, one
// line, for a key that is unknown, of another type, or not among its allowed values. A key without effect gets its
// default, and stands among `idle`; not where it has an effect in the file, and an override took that away (so
// `moe.every=0` makes any file dense, without a word). Says nothing of layouts: see validate. In a path, ~ at the
// beginning is the home folder. A launcher's ranks fill what the mesh leaves open: dp, ranks of a node, threads.
// What a key may name stands in the catalogue, which outlives the config; what a file leaves out is the first of its
// list.
Config load_config(const std::string& path, std::span<const std::string> overrides = {}, const Launch& launch = {},
                   const Catalogue& catalogue = built_in());
Config parse_config(std::string_view toml, const std::string& file_name, std::span<const std::string> overrides = {},
                    const Launch& launch = {}, const Catalogue& catalogue = built_in());

// Fills what 0 left to be derived (key/value heads, expert size, esp, dp, micro-batch, threads). Idempotent.
Config resolve(Config config);

// Refuses a resolved config that no layout of ranks can run; the InputError names the two numbers that do not fit.
void validate(const Config& config);

// load_config, resolve and validate in one.
Config ready_config(const std::string& path, std::span<const std::string> overrides = {}, const Launch& launch = {},
                    const Catalogue& catalogue = built_in());

// A key that says something else in one of two resolved configs, and what it is of: what the model computes, which
// tokens it sees when, or how and how long it is trained.
struct ConfigChange {
  std::string name, before, now;  // "train.seed", "1", "2"
  enum class Of { model, data, run } of;
};
std::vector<ConfigChange> config_changes(Config before, Config now);

// All keys that have an effect, as TOML that load_config reads back to an equal config (doubles round-trip exactly).
std::string to_toml(const Config& config);

// The same as a table for people: key, value, meaning.
std::string config_table(const Config& config);

// "no effect here: moe.drop: nothing is dropped (moe.capacity = "none"); ..."; empty where no key is idle.
std::string idle_note(const Config& config);

// ---- derived numbers of a resolved config ----
const FamilySpec& family_of(const Config& config);           // for "auto" the one that it must compute as
const FamilySpec& reference_family(const Config& config);    // that one: the first of the catalogue
bool fuses(const Config& config, const FamilySpec& family);  // the exchange and the gather of rows in one message
int64_t num_ranks(const Config& config);                     // tp * dp
int64_t expert_data_ranks(const Config& config);             // edp = ranks / (ep * esp)
bool has_experts(const Config& config, int64_t layer);       // is this layer's feed-forward a mixture of experts?
int64_t num_expert_layers(const Config& config);
int64_t micro_batches(const Config& config);                    // micro-batches a data rank accumulates per step
int64_t micro_tokens(const Config& config);                     // tokens of one micro-batch on one data rank
int64_t gated_tokens(const Config& config);                     // of those, what one rank's gate sees
double aux_coef(const Config& config);                          // of the gate's balancing loss; 0 where it has none
std::optional<int64_t> memory_limit(const Config& config);      // bytes of a rank
std::optional<double> save_interval(const Config& config);      // seconds
std::optional<double> max_time(const Config& config);           // seconds
int64_t gate_group(const Config& config);                       // tokens whose capacity is decided together
int64_t expert_capacity(const Config& config, int64_t tokens);  // C of a group; REQUIRES moe.capacity to be set

}  // namespace plait
