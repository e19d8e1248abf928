#include "layers/sizes.h"

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

void fill_experts(ModelSizes& s, const Config& c) {
  s.moe_every = c.moe.every;
  s.fuse = fuses(c, s.family);
  s.chunks = c.schedule.chunks;
  s.experts = c.moe.num_experts;
  s.top_k = c.moe.num_experts_per_tok;
  s.expert_ffn = c.moe.moe_intermediate_size;
  s.gate = choice<Gate>(c.moe.gate, "moe.gate");
  s.normalize = s.gate == Gate::switch_top1 ? Normalize::none : choice<Normalize>(c.moe.normalize, "moe.normalize");
  s.aux_coef = c.moe.aux_coef;
  s.z_coef = c.moe.z_coef;
  if (!c.moe.capacity) return;
  s.drop = choice<Drop>(c.moe.drop, "moe.drop");
  s.group = gate_group(c);
  s.capacity = expert_capacity(c, s.group);
  const bool slices = s.family == Family::dtd || s.family == Family::s2;
  const int64_t parts = (slices ? c.mesh.tp : 1) * s.chunks;
  s.capacity = (s.capacity + parts - 1) / parts * parts;
}

}  // namespace

ModelSizes model_sizes(const Config& c) {
  ModelSizes s;
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
  if (num_expert_layers(c) > 0) fill_experts(s, c);
  return s;
}

ModelSizes with_batch(const ModelSizes& sizes, int64_t sequences, int64_t positions) {
  ModelSizes s = sizes;
  s.sequences = sequences;
  s.positions = positions;
  return s;
}

}  // namespace plait
