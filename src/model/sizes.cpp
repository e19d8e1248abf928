#include "model/sizes.h"

#include <algorithm>

#include "base/errors.h"

namespace plait {
namespace {

// Tokens whose statistics make one auxiliary loss: a sequence, what one gate sees (each token once), or all.
int64_t aux_group(const Config& c, AuxLoss loss) {
  if (loss == AuxLoss::of_each_sequence) return c.train.seq_length;
  if (loss == AuxLoss::variation || c.moe.aux_scope == AuxScope::global) return 0;
  return family_of(c).copies() ? micro_tokens(c) * std::max<int64_t>(1, c.mesh.esp / c.mesh.tp) : gated_tokens(c);
}

// What only some gates read.
void fill_gate(ModelSizes& s, const Config& c) {
  const GateSpec& gate = *c.moe.gate;
  s.gate = &gate;
  if (gate.reads("moe.order")) s.order = c.moe.order;
  if (gate.reads("moe.sample")) s.rule.sample = c.moe.sample;
  if (gate.reads("moe.expert_groups")) s.rule.expert_groups = c.moe.expert_groups;
  if (gate.reads("moe.kept_groups")) s.rule.kept_groups = c.moe.kept_groups;
  if (gate.reads("moe.routed_scaling")) s.rule.scaling = c.moe.routed_scaling;
  if (gate.reads("moe.bias_rate")) s.bias_rate = c.moe.bias_rate;
  if (gate.reads("moe.jitter")) s.jitter = c.moe.jitter;
  if (gate.reads("moe.z_coef")) s.z_coef = c.moe.z_coef;
  s.normalize = gate.normalize.value_or(c.moe.normalize);
  s.shared_experts = c.moe.shared_experts;
  s.aux_coef = aux_coef(c);
  if (s.aux_coef != 0) s.aux_group = aux_group(c, gate.loss);
  s.noise = gate.noise;
  const Chooser chooser = gate.route->chooser;
  if (chooser == Chooser::group) s.group = gate_group(c), s.eval_group = 1;
  if (chooser != Chooser::expert) return;
  s.eval_group = c.moe.group > 0 ? c.moe.group : c.train.seq_length;
  s.eval_capacity = expert_capacity(c, s.eval_group);
}

void fill_experts(ModelSizes& s, const Config& c) {
  s.moe_every = c.moe.every;
  s.fuse = fuses(c, *s.family);
  s.dispatch = c.schedule.dispatch;
  s.pad_rows = c.schedule.rows == RowFill::padded;
  s.slice_rows = c.schedule.slice == Sliced::rows;
  s.chunks = c.schedule.chunks;
  s.chunks_backward = c.schedule.chunks_backward;
  s.experts = c.moe.num_experts;
  s.top_k = c.moe.num_experts_per_tok;
  s.expert_ffn = c.moe.moe_intermediate_size;
  fill_gate(s, c);
  if (!c.moe.capacity) return;
  // In a gate that does not read the key, the order in which routes come is part of it.
  s.drop = s.gate->reads("moe.drop") ? c.moe.drop : Drop::position;
  s.group = gate_group(c);
  s.capacity = expert_capacity(c, s.group);
  const int64_t parts = (s.family->cuts_slots() ? c.mesh.tp : 1) * s.parts();
  s.capacity = (s.capacity + parts - 1) / parts * parts;
}

}  // namespace

ModelSizes model_sizes(const Config& c) {
  ModelSizes s;
  s.architecture = c.model.architecture;
  s.precision = is_half(c.train.dtype) ? Precision::mixed : Precision::one;
  s.sequences = c.train.micro_batch_size * c.mesh.dp;
  s.positions = c.train.seq_length;
  s.vocab = c.model.vocab_size;
  s.width = c.model.hidden_size;
  s.layers = c.model.num_hidden_layers;
  s.heads = c.model.num_attention_heads;
  s.kv_heads = c.model.num_key_value_heads;
  s.ffn = c.model.intermediate_size;
  s.act = c.model.hidden_act;
  s.glu = c.model.glu;
  s.tied = c.model.tie_word_embeddings;
  s.norm_eps = c.model.rms_norm_eps;
  s.rope_theta = c.model.rope_theta;
  s.family = &family_of(c);
  s.zero = c.memory.zero == 0 ? Zero::none : c.memory.zero == 1 ? Zero::states : Zero::parameters;
  s.recompute = c.memory.recompute;
  s.keep_moves = c.memory.keep_moves;
  if (num_expert_layers(c) > 0) fill_experts(s, c);
  return s;
}

ModelSizes for_evaluation(const ModelSizes& sizes) {
  ModelSizes s = sizes;
  s.rule.sample = Sample::none;
  s.noise = false;
  s.jitter = 0;
  s.drop = Drop::none;
  s.group = s.eval_group;
  s.capacity = s.eval_capacity;
  s.counted = s.capacity > 0;
  s.aux_coef = s.z_coef = 0;
  s.aux_group = 0;
  return s;
}

ModelSizes with_batch(const ModelSizes& sizes, int64_t sequences, int64_t positions) {
  ModelSizes s = sizes;
  s.sequences = sequences;
  s.positions = positions;
  return s;
}

}  // namespace plait
