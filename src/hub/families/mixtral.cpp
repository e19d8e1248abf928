// Mixtral: experts in every layer, the chosen weights renormalised.
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "hub/families/families.h"

namespace plait::hub {
namespace {

void read(ConfigJson& json, Settings& s) {
  read_softmax_gate(json, s, Renormalised::yes);
  s.set("moe.every", int64_t{1});
  s.set("moe.num_experts", json.integer("num_local_experts", 8));
  s.set("moe.jitter", json.number("router_jitter_noise", 0.));
}

void write(const Config& c, Json& json) {
  expect_softmax_gate(c, "mixtral");
  if (num_expert_layers(c) != c.model.num_hidden_layers || c.moe.shared_experts > 0 || c.model.attention_bias)
    input_error(
        "mixtral has experts in every layer, no shared experts and no biases: moe.every = {}, "
        "moe.shared_experts = {}, model.attention_bias = {} have no place in it",
        c.moe.every, c.moe.shared_experts, c.model.attention_bias);
  if (c.moe.normalize == Normalize::none && c.moe.num_experts_per_tok > 1)
    input_error("mixtral renormalises the chosen weights: moe.normalize = \"none\" has no place in it");
  json["intermediate_size"] = c.moe.moe_intermediate_size;
  json["num_local_experts"] = c.moe.num_experts;
  json["num_experts_per_tok"] = c.moe.num_experts_per_tok;
  json["router_aux_loss_coef"] = published_aux_coef(c);
  json["router_jitter_noise"] = c.moe.jitter;
}

}  // namespace

const PublishedFamily mixtral = {
    .model_type = "mixtral",
    .class_name = "MixtralForCausalLM",
    .architecture = &architectures::mixtral,
    .names = {{"mlp.gate.weight", {"block_sparse_moe.gate.weight"}},
              {"mlp.experts.gate_up_proj",
               {"block_sparse_moe.experts.{e}.w1.weight", "block_sparse_moe.experts.{e}.w3.weight"}},
              {"mlp.experts.down_proj", {"block_sparse_moe.experts.{e}.w2.weight"}}},
    .read = read,
    .write = write};

}  // namespace plait::hub
