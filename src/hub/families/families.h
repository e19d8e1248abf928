// The families, and what those with a softmax gate share.
#pragma once
#include "hub/family.h"

namespace plait::hub {

extern const PublishedFamily llama, mistral, mixtral, qwen2_moe, qwen3_moe, olmoe;

// "mlp.experts.{e}.gate_proj.weight" and its like.
std::vector<Naming> qwen_names();

// Whether the chosen weights are renormalised; the coefficient of the balancing loss, in our scale.
enum class Renormalised { no, yes };
void read_softmax_gate(const ConfigJson& json, Settings& settings, Renormalised renormalised);

// Which layers have experts, as Qwen says it; and whether the chosen weights are renormalised.
void read_qwen_experts(const ConfigJson& json, Settings& settings);
void write_qwen_experts(const Config& config, Json& json);

// InputError for a gate that is no softmax over all experts before the top-k, or drops.
void expect_softmax_gate(const Config& config, std::string_view family);

double published_aux_coef(const Config& config);  // of our coefficient

}  // namespace plait::hub
