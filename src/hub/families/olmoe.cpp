// OLMoE: experts of intermediate_size in every layer.
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "hub/families/families.h"

namespace plait::hub {
namespace {

void read(ConfigJson& json, Settings& s) {
  read_softmax_gate(json, s, json.says_yes("norm_topk_prob") ? Renormalised::yes : Renormalised::no);
  s.set("moe.every", int64_t{1});
  s.set("moe.num_experts", json.integer("num_experts", 64));
  s.set("model.clip_qkv", json.number("clip_qkv", 0.));
}

void write(const Config& c, Json& json) {
  expect_softmax_gate(c, "olmoe");
  if (num_expert_layers(c) != c.model.num_hidden_layers || c.moe.shared_experts > 0)
    input_error(
        "olmoe has experts in every layer and no shared ones: moe.every = {}, moe.shared_experts = {} have no "
        "place in it",
        c.moe.every, c.moe.shared_experts);
  json["intermediate_size"] = c.moe.moe_intermediate_size;
  json["num_experts"] = c.moe.num_experts;
  json["num_experts_per_tok"] = c.moe.num_experts_per_tok;
  json["norm_topk_prob"] = c.moe.normalize != Normalize::none;
  json["router_aux_loss_coef"] = published_aux_coef(c);
  if (c.model.clip_qkv > 0) json["clip_qkv"] = c.model.clip_qkv;
}

}  // namespace

const PublishedFamily olmoe = {.model_type = "olmoe",
                               .class_name = "OlmoeForCausalLM",
                               .architecture = &architectures::olmoe,
                               .names = qwen_names(),
                               .read = read,
                               .write = write};

}  // namespace plait::hub
