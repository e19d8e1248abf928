#include "model/sizes.h"

#include <algorithm>

#include "base/errors.h"

namespace plait {
namespace {

template <class E>
E choice(const std::string& text, std::string_view key) {
  const auto& names = EnumNames<E>::names;
  const auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) input_error("{}: read \"{}\", expected one of {}", key, text, fmt::join(names, ", "));
  return static_cast<E>(it - names.begin());
}

Dispatch dispatch(const std::string& text) {
  return text == "levels" ? Dispatch::levels : text == "node" ? Dispatch::node : Dispatch::direct;
}

Family family(const std::string& text) {
  constexpr std::string_view names[] = {"ted", "dtd", "parm", "s1", "s2", "sharded"};
  const auto it = std::find(std::begin(names), std::end(names), text);
  expects(it != std::end(names), "schedule.moe is one of its allowed values");
  return static_cast<Family>(it - std::begin(names));
}

// As published, unless the config says otherwise.
bool fuses(const Config& c, Family family) {
  if (c.schedule.fuse == "auto") return family == Family::s1 || family == Family::s2;
  return c.schedule.fuse == "yes";
}

// Tokens whose statistics make one auxiliary loss: a sequence, what one gate sees (each token once), or all.
int64_t aux_group(const Config& c, AuxLoss loss) {
  if (loss == AuxLoss::of_each_sequence) return c.train.seq_length;
  if (loss == AuxLoss::variation || c.moe.aux_scope == "global") return 0;
  return c.schedule.moe == "parm" ? micro_tokens(c) * std::max<int64_t>(1, c.mesh.esp / c.mesh.tp) : gated_tokens(c);
}

// What only some gates read.
void fill_gate(ModelSizes& s, const Config& c) {
  const GateSpec& gate = gate_of(c);
  s.gate = &gate;
  if (gate.reads("moe.order")) s.order = choice<GateOrder>(c.moe.order, "moe.order");
  if (gate.reads("moe.sample")) s.rule.sample = choice<Sample>(c.moe.sample, "moe.sample");
  if (gate.reads("moe.expert_groups")) s.rule.expert_groups = c.moe.expert_groups;
  if (gate.reads("moe.kept_groups")) s.rule.kept_groups = c.moe.kept_groups;
  if (gate.reads("moe.routed_scaling")) s.rule.scaling = c.moe.routed_scaling;
  if (gate.reads("moe.bias_rate")) s.bias_rate = c.moe.bias_rate;
  if (gate.reads("moe.jitter")) s.jitter = c.moe.jitter;
  if (gate.reads("moe.z_coef")) s.z_coef = c.moe.z_coef;
  s.normalize = gate.normalize ? *gate.normalize : choice<Normalize>(c.moe.normalize, "moe.normalize");
  s.shared_experts = c.moe.shared_experts;
  s.aux_coef = aux_coef(c);
  if (s.aux_coef != 0) s.aux_group = aux_group(c, gate.loss);
  s.noise = gate.noise;
  if (gate.route->chooser == Chooser::group) s.group = gate_group(c);
}

void fill_experts(ModelSizes& s, const Config& c) {
  s.moe_every = c.moe.every;
  s.fuse = fuses(c, s.family);
  s.dispatch = dispatch(c.schedule.dispatch);
  s.pad_rows = c.schedule.rows == "padded";
  s.slice_rows = c.schedule.slice == "rows";
  s.chunks = c.schedule.chunks;
  s.chunks_backward = c.schedule.chunks_backward;
  s.experts = c.moe.num_experts;
  s.top_k = c.moe.num_experts_per_tok;
  s.expert_ffn = c.moe.moe_intermediate_size;
  fill_gate(s, c);
  if (!c.moe.capacity) return;
  // In a gate that does not read the key, the order in which routes come is part of it.
  s.drop = s.gate->reads("moe.drop") ? choice<Drop>(c.moe.drop, "moe.drop") : Drop::position;
  s.group = gate_group(c);
  s.capacity = expert_capacity(c, s.group);
  const bool slices = s.family == Family::dtd || s.family == Family::s2;
  const int64_t parts = (slices ? c.mesh.tp : 1) * s.parts();
  s.capacity = (s.capacity + parts - 1) / parts * parts;
}

}  // namespace

ModelSizes model_sizes(const Config& c) {
  ModelSizes s;
  s.precision = c.train.dtype == "bfloat16" || c.train.dtype == "float16" ? Precision::mixed : Precision::one;
  s.sequences = c.train.micro_batch_size * c.mesh.dp;
  s.positions = c.train.seq_length;
  s.vocab = c.model.vocab_size;
  s.width = c.model.hidden_size;
  s.layers = c.model.num_hidden_layers;
  s.heads = c.model.num_attention_heads;
  s.kv_heads = c.model.num_key_value_heads;
  s.ffn = c.model.intermediate_size;
  s.act = choice<Act>(c.model.hidden_act, "model.hidden_act");
  s.glu = c.model.glu;
  s.tied = c.model.tie_word_embeddings;
  s.norm_eps = c.model.rms_norm_eps;
  s.rope_theta = c.model.rope_theta;
  s.family = family(c.schedule.moe);
  s.zero = c.memory.zero == 0 ? Zero::none : c.memory.zero == 1 ? Zero::states : Zero::parameters;
  s.recompute = choice<Recompute>(c.memory.recompute, "memory.recompute");
  s.keep_moves = choice<KeepMoves>(c.memory.keep_moves, "memory.keep_moves");
  if (num_expert_layers(c) > 0) fill_experts(s, c);
  return s;
}

ModelSizes without_draws(const ModelSizes& sizes) {
  ModelSizes s = sizes;
  s.rule.sample = Sample::none;
  s.noise = false;
  s.jitter = 0;
  if (s.drop == Drop::rts) s.drop = Drop::position;
  return s;
}

ModelSizes with_batch(const ModelSizes& sizes, int64_t sequences, int64_t positions) {
  ModelSizes s = sizes;
  s.sequences = sequences;
  s.positions = positions;
  return s;
}

}  // namespace plait
