// What all published decoders after Llama have in common: their keys, and the names of their tensors.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "hub/family.h"

namespace plait::hub {
namespace {

const std::vector<Naming>& names_of_decoders() {
  static const std::vector<Naming> names = {
      {"model.embed_tokens.weight", {"model.embed_tokens.weight"}},
      {"model.norm.weight", {"model.norm.weight"}, Form::vector},
      {"lm_head.weight", {"lm_head.weight"}},
      {"input_layernorm.weight", {"input_layernorm.weight"}, Form::vector},
      {"post_attention_layernorm.weight", {"post_attention_layernorm.weight"}, Form::vector},
      {"self_attn.q_proj.weight", {"self_attn.q_proj.weight"}},
      {"self_attn.k_proj.weight", {"self_attn.k_proj.weight"}},
      {"self_attn.v_proj.weight", {"self_attn.v_proj.weight"}},
      {"self_attn.o_proj.weight", {"self_attn.o_proj.weight"}, Form::columns},
      {"self_attn.q_proj.bias", {"self_attn.q_proj.bias"}, Form::vector},
      {"self_attn.k_proj.bias", {"self_attn.k_proj.bias"}, Form::vector},
      {"self_attn.v_proj.bias", {"self_attn.v_proj.bias"}, Form::vector},
      {"self_attn.o_proj.bias", {"self_attn.o_proj.bias"}, Form::vector},
      {"self_attn.q_norm.weight", {"self_attn.q_norm.weight"}, Form::vector},
      {"self_attn.k_norm.weight", {"self_attn.k_norm.weight"}, Form::vector},
      {"mlp.gate_up_proj.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"}},
      {"mlp.down_proj.weight", {"mlp.down_proj.weight"}}};
  return names;
}

// "model.layers.12." and what follows it; an empty front for tensors of no layer.
std::pair<std::string, std::string> cut_layer(const std::string& ours) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!ours.starts_with(kLayers)) return {"", ours};
  const size_t end = ours.find('.', kLayers.size()) + 1;
  return {ours.substr(0, end), ours.substr(end)};
}

const Naming& naming_of(const PublishedFamily& family, const std::string& part) {
  for (const std::vector<Naming>* names : {&family.names, &names_of_decoders()})
    for (const Naming& naming : *names)
      if (naming.ours == part) return naming;
  input_error("{} has no name for the tensor '{}' of this model", family.model_type, part);
}

std::vector<int64_t> formed(Form form, std::span<const int64_t> dims) {
  int64_t all = 1;
  for (const int64_t n : dims) all *= n;
  if (form == Form::vector || dims.size() < 2) return {all};
  const int64_t first = dims.front(), last = dims.back();
  return form == Form::matrix ? std::vector{all / std::max<int64_t>(1, last), last}
                              : std::vector{first, all / std::max<int64_t>(1, first)};
}

}  // namespace

std::vector<Published> published_in(const PublishedFamily& family, const std::string& ours,
                                    std::span<const int64_t> shape) {
  const auto [front, part] = cut_layer(ours);
  const Naming& naming = naming_of(family, part);
  const bool each = naming.published.front().find("{e}") != std::string_view::npos;
  const int64_t times = each ? shape.front() : 1;
  if (each) shape = shape.subspan(1);
  if (naming.published.size() > 1) {
    expects(shape.front() == static_cast<int64_t>(naming.published.size()), "pieces lie along a dim of their number");
    shape = shape.subspan(1);
  }
  std::vector<Published> all;
  for (int64_t e = 0; e < times; ++e)
    for (std::string_view name : naming.published) {
      std::string full = front + std::string(name);
      if (each) full.replace(full.find("{e}"), 3, std::to_string(e));
      all.push_back({std::move(full), formed(naming.form, shape)});
    }
  return all;
}

bool says_nothing(std::string_view name) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"inv_freq", "masked_bias", "attn.bias", "position_ids"},
      [&](std::string_view end) { return name.ends_with(end); });
}

namespace {

// Old files have rope_theta and rope_scaling, new ones rope_parameters.
void read_rope(const ConfigJson& json, Settings& s) {
  const bool one = json.has("rope_parameters");
  const ConfigJson rope = json.object(one ? "rope_parameters" : "rope_scaling");
  s.set("model.rope_theta",
        one ? rope.number("rope_theta", json.number("rope_theta", 10000.)) : json.number("rope_theta", 10000.));
  if (rope.number("partial_rotary_factor", json.number("partial_rotary_factor", 1.)) != 1)
    rope.refuse("partial_rotary_factor", "Plait rotates whole heads");
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return;
  if (type != "linear" && type != "llama3" && type != "yarn")
    rope.refuse(rope.has("rope_type") ? "rope_type" : "type",
                "Plait knows the rotary scalings default, linear, llama3 and yarn");
  s.set("model.rope_type", std::string_view(type));
  s.set("model.rope_factor", rope.number("factor"));
  if (type == "linear") return;
  s.set("model.rope_original_positions",
        rope.integer("original_max_position_embeddings", json.integer("max_position_embeddings")));
  if (type == "llama3") {
    s.set("model.rope_low_freq_factor", rope.number("low_freq_factor"));
    s.set("model.rope_high_freq_factor", rope.number("high_freq_factor"));
    return;
  }
  for (const char* key : {"mscale", "mscale_all_dim"})
    if (rope.has(key)) rope.refuse(key, "Plait reads attention_factor only");
  if (rope.says_no("truncate")) rope.refuse("truncate", "Plait cuts the range of pairs to whole ones");
  s.set("model.rope_beta_fast", rope.number("beta_fast", 32.));
  s.set("model.rope_beta_slow", rope.number("beta_slow", 1.));
  s.set("model.rope_attention_factor", rope.number("attention_factor", 0.));
}

void read_window(const ConfigJson& json, Settings& s) {
  if (json.has("layer_types")) {
    std::set<std::string> kinds;
    for (const Json& kind : json.json()["layer_types"]) kinds.insert(kind.is_string() ? kind.get<std::string>() : "?");
    if (kinds.size() > 1) json.refuse("layer_types", "Plait has one kind of attention in all layers");
  }
  if (!json.has("sliding_window") || json.says_no("use_sliding_window")) return;
  if (json.has("use_sliding_window") && json.integer("max_window_layers", 0) > 0)
    json.refuse("max_window_layers", "Plait has one kind of attention in all layers");
  s.set("model.sliding_window", json.integer("sliding_window"));
}

void refuse_others(const ConfigJson& json) {
  if (json.has("quantization_config"))
    json.refuse("quantization_config", "Plait reads weights of BF16, F16, F32 and F64; dequantise them first");
  if (json.says_yes("mlp_bias")) json.refuse("mlp_bias", "Plait's feed-forward has no biases");
  const std::string act = json.text("hidden_act", "silu");
  if (act != "silu") json.refuse("hidden_act", "expected silu");
}

}  // namespace

Settings settings_of(const PublishedFamily& family, ConfigJson& json) {
  Settings s;
  refuse_others(json);
  const int64_t heads = json.integer("num_attention_heads"), hidden = json.integer("hidden_size");
  s.set("model.architecture", family.architecture->name);
  s.set("model.vocab_size", json.integer("vocab_size"));
  s.set("model.hidden_size", hidden);
  s.set("model.num_hidden_layers", json.integer("num_hidden_layers"));
  s.set("model.num_attention_heads", heads);
  s.set("model.num_key_value_heads", json.integer("num_key_value_heads", heads));
  if (json.has("head_dim") && json.integer("head_dim") * heads != hidden)
    s.set("model.head_dim", json.integer("head_dim"));
  if (json.has("intermediate_size") || !json.has("moe_intermediate_size"))
    s.set("model.intermediate_size", json.integer("intermediate_size"));
  s.set("model.rms_norm_eps", json.number("rms_norm_eps"));
  s.set("model.tie_word_embeddings", json.says_yes("tie_word_embeddings"));
  if (json.says_yes("attention_bias")) {
    if (!family.architecture->reads("model.attention_bias"))
      json.refuse("attention_bias", fmt::format("{} has none on its output", family.model_type));
    s.set("model.attention_bias", true);
  }
  read_rope(json, s);
  read_window(json, s);
  family.read(json, s);
  return s;
}

namespace {

Json rope_json(const ModelConfig& m) {
  const RopeScaling& r = m.rope;
  Json rope = {{"rope_type", word(r.type)}, {"rope_theta", m.rope_theta}};
  if (r.type != RopeType::standard) rope["factor"] = r.factor;
  if (r.type == RopeType::llama3 || r.type == RopeType::yarn)
    rope["original_max_position_embeddings"] = r.original_positions;
  if (r.type == RopeType::llama3) rope["low_freq_factor"] = r.low_freq_factor;
  if (r.type == RopeType::llama3) rope["high_freq_factor"] = r.high_freq_factor;
  if (r.type != RopeType::yarn) return rope;
  rope["beta_fast"] = r.beta_fast;
  rope["beta_slow"] = r.beta_slow;
  if (r.attention_factor > 0) rope["attention_factor"] = r.attention_factor;
  return rope;
}

}  // namespace

Json json_of(const PublishedFamily& family, const Config& c) {
  const ModelConfig& m = c.model;
  if (!m.glu || m.hidden_act != Act::silu)
    input_error("{} has gated feed-forwards with silu: model.glu = {}, model.hidden_act = \"{}\" have no place in it",
                family.model_type, m.glu, word(m.hidden_act));
  Json json = {{"architectures", {family.class_name}},
               {"model_type", family.model_type},
               {"vocab_size", m.vocab_size},
               {"hidden_size", m.hidden_size},
               {"intermediate_size", m.intermediate_size},
               {"num_hidden_layers", m.num_hidden_layers},
               {"num_attention_heads", m.num_attention_heads},
               {"num_key_value_heads", m.num_key_value_heads},
               {"head_dim", head_size(c)},
               {"hidden_act", "silu"},
               {"max_position_embeddings", std::max<int64_t>(c.train.seq_length, 2048)},
               {"rms_norm_eps", m.rms_norm_eps},
               {"rope_theta", m.rope_theta},
               {"rope_parameters", rope_json(m)},
               {"tie_word_embeddings", m.tie_word_embeddings}};
  if (m.rope.type != RopeType::standard) json["rope_scaling"] = rope_json(m);
  if (m.attention_bias) json["attention_bias"] = true;
  if (m.sliding_window > 0) json["sliding_window"] = m.sliding_window;
  family.write(c, json);
  return json;
}

}  // namespace plait::hub
