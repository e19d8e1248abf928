// Qwen2-MoE and Qwen3-MoE.
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "hub/families/families.h"

namespace plait::hub {
namespace {

void read_qwen2(ConfigJson& json, Settings& s) {
  read_qwen_experts(json, s);
  if (json.says_no("qkv_bias")) json.refuse("qkv_bias", "Plait's qwen2_moe has biases of queries, keys and values");
  s.set("moe.shared_experts", int64_t{1});
  s.set("moe.shared_intermediate_size", json.integer("shared_expert_intermediate_size"));
}

void write_qwen2(const Config& c, Json& json) {
  expect_softmax_gate(c, "qwen2_moe");
  if (c.moe.shared_experts == 0)
    input_error("qwen2_moe has a shared expert: moe.shared_experts = 0 has no place in it");
  write_qwen_experts(c, json);
  json["shared_expert_intermediate_size"] = shared_width(c);
  json["qkv_bias"] = true;
}

void write_qwen3(const Config& c, Json& json) {
  expect_softmax_gate(c, "qwen3_moe");
  if (c.moe.shared_experts > 0)
    input_error("qwen3_moe has no shared expert: moe.shared_experts = {} has no place in it", c.moe.shared_experts);
  write_qwen_experts(c, json);
}

void read_qwen3(ConfigJson& json, Settings& s) { read_qwen_experts(json, s); }

}  // namespace

const PublishedFamily qwen2_moe = {.model_type = "qwen2_moe",
                                   .class_name = "Qwen2MoeForCausalLM",
                                   .architecture = &architectures::qwen2_moe,
                                   .names = qwen_names(),
                                   .read = read_qwen2,
                                   .write = write_qwen2};

const PublishedFamily qwen3_moe = {.model_type = "qwen3_moe",
                                   .class_name = "Qwen3MoeForCausalLM",
                                   .architecture = &architectures::qwen3_moe,
                                   .names = qwen_names(),
                                   .read = read_qwen3,
                                   .write = write_qwen3};

}  // namespace plait::hub
