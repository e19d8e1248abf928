#include <algorithm>
#include <array>

#include "config/architecture.h"
#include "config/checks.h"
#include "config/config.h"

namespace plait {

bool Architecture::reads(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }

namespace architectures {
namespace {

// Of all decoders after Llama; then the keys that only some of them read.
constexpr auto kDecoderKeys = std::to_array<std::string_view>({"model.vocab_size",
                                                               "model.hidden_size",
                                                               "model.num_hidden_layers",
                                                               "model.num_attention_heads",
                                                               "model.num_key_value_heads",
                                                               "model.head_dim",
                                                               "model.sliding_window",
                                                               "model.intermediate_size",
                                                               "model.hidden_act",
                                                               "model.glu",
                                                               "model.rms_norm_eps",
                                                               "model.rope_theta",
                                                               "model.rope_type",
                                                               "model.rope_factor",
                                                               "model.rope_low_freq_factor",
                                                               "model.rope_high_freq_factor",
                                                               "model.rope_original_positions",
                                                               "model.rope_beta_fast",
                                                               "model.rope_beta_slow",
                                                               "model.rope_attention_factor",
                                                               "model.tie_word_embeddings"});

template <size_t N>
constexpr auto decoder_keys_and(const std::string_view (&more)[N]) {
  std::array<std::string_view, kDecoderKeys.size() + N> all;
  std::ranges::copy(more, std::ranges::copy(kDecoderKeys, all.begin()).out);
  return all;
}

constexpr auto kGpt2Keys = std::to_array<std::string_view>(
    {"model.vocab_size", "model.hidden_size", "model.num_hidden_layers", "model.num_attention_heads",
     "model.max_position_embeddings", "model.intermediate_size", "model.hidden_act", "model.rms_norm_eps"});

constexpr auto kBiasedKeys = decoder_keys_and({"model.attention_bias"});
constexpr auto kClippedKeys = decoder_keys_and({"model.attention_bias", "model.clip_qkv"});

void check_heads(const Config& c) {
  const Named heads{"model.num_attention_heads", c.model.num_attention_heads};
  const Named hidden{"model.hidden_size", c.model.hidden_size};
  if (c.model.head_dim == 0) must_divide(heads, hidden);
  const int64_t size = head_size(c);
  if (size % 2 == 0) return;
  if (c.model.head_dim > 0) input_error("model.head_dim = {}; rotary positions need an even size", size);
  input_error("{} over {} gives heads of size {}; rotary positions need an even size", hidden.text(), heads.text(),
              size);
}

void check_rope(const Config& c) {
  const RopeScaling& rope = c.model.rope;
  const std::string type = fmt::format("model.rope_type = \"{}\"", word(rope.type));
  const bool original = rope.type == RopeType::llama3 || rope.type == RopeType::yarn;
  if (original && rope.original_positions == 0)
    input_error("{} needs model.rope_original_positions, the length of the texts of training", type);
  if (rope.type == RopeType::llama3 && rope.high_freq_factor <= rope.low_freq_factor)
    input_error("{} needs model.rope_high_freq_factor = {} above model.rope_low_freq_factor = {}", type,
                rope.high_freq_factor, rope.low_freq_factor);
}

void check_decoder(const Config& c) {
  const Named heads{"model.num_attention_heads", c.model.num_attention_heads};
  const Named kv_heads{"model.num_key_value_heads", c.model.num_key_value_heads};
  const Named tp{"mesh.tp", c.mesh.tp};
  check_heads(c);
  check_rope(c);
  must_divide(kv_heads, heads);
  must_divide(tp, heads);
  if (kv_heads.value < tp.value)
    input_error("{} is fewer than {}: each of those ranks needs a key/value head", kv_heads.text(), tp.text());
  must_divide(tp, kv_heads);
  must_divide(tp, {"model.vocab_size", c.model.vocab_size});
  if (num_expert_layers(c) < c.model.num_hidden_layers)
    must_divide(tp, {"model.intermediate_size", c.model.intermediate_size});
}

void check_gpt2(const Config& c) {
  const Named heads{"model.num_attention_heads", c.model.num_attention_heads};
  const Named tp{"mesh.tp", c.mesh.tp};
  must_divide(heads, {"model.hidden_size", c.model.hidden_size});
  must_divide(tp, heads);
  must_divide(tp, {"model.vocab_size", c.model.vocab_size});
  if (num_expert_layers(c) < c.model.num_hidden_layers)
    must_divide(tp, {"model.intermediate_size", c.model.intermediate_size});
  if (c.train.seq_length > c.model.max_position_embeddings)
    input_error(
        "train.seq_length = {} is more than model.max_position_embeddings = {}: later positions have no embedding",
        c.train.seq_length, c.model.max_position_embeddings);
}

}  // namespace

constinit const Architecture mixtral = {
    .name = "mixtral",
    .help = "norm, attention with rotary positions, norm, feed-forward or experts; without experts it is Llama",
    .keys = kBiasedKeys,
    .check = check_decoder};

constinit const Architecture qwen2_moe = {
    .name = "qwen2_moe",
    .help = "the same with biases of queries, keys and values, and a gate of the shared experts",
    .keys = kDecoderKeys,
    .check = check_decoder};

constinit const Architecture qwen3_moe = {.name = "qwen3_moe",
                                          .help = "the same with a norm of each query's and key's head",
                                          .keys = kBiasedKeys,
                                          .check = check_decoder};

constinit const Architecture olmoe = {
    .name = "olmoe",
    .help = "the same with a norm over all heads of a query or key, which may be clipped",
    .keys = kClippedKeys,
    .check = check_decoder};

constinit const Architecture gpt2 = {
    .name = "gpt2",
    .help = "LayerNorm, attention, LayerNorm, feed-forward or experts, with learned positions and biases everywhere",
    .keys = kGpt2Keys,
    .check = check_gpt2};

const std::vector<const Architecture*>& all() {
  static const std::vector<const Architecture*> list = {&mixtral, &qwen2_moe, &qwen3_moe, &olmoe, &gpt2};
  return list;
}

}  // namespace architectures
}  // namespace plait
