#include <algorithm>

#include "config/architecture.h"
#include "config/checks.h"
#include "config/config.h"

namespace plait {

bool Architecture::reads(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }

namespace architectures {
namespace {

constexpr std::string_view kMixtralKeys[] = {
    "model.vocab_size",          "model.hidden_size",       "model.num_hidden_layers",  "model.num_attention_heads",
    "model.num_key_value_heads", "model.intermediate_size", "model.hidden_act",         "model.glu",
    "model.rms_norm_eps",        "model.rope_theta",        "model.tie_word_embeddings"};

void check_mixtral(const Config& c) {
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

}  // namespace

constinit const Architecture mixtral = {
    .name = "mixtral",
    .help = "norm, attention with rotary positions, norm, feed-forward or experts; without experts it is Llama",
    .keys = kMixtralKeys,
    .check = check_mixtral};

const std::vector<const Architecture*>& all() {
  static const std::vector<const Architecture*> list = {&mixtral};
  return list;
}

}  // namespace architectures
}  // namespace plait
