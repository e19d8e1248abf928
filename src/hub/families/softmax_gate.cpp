#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "hub/families/families.h"

namespace plait::hub {
namespace {

// Theirs is the mean over all layers together and k at balance, ours the sum over layers, each 1 at balance.
constexpr const char* kAuxNote =
    "the balancing loss of transformers is taken over all layers together and is the number of chosen experts at "
    "balance; ours is summed over layers, each 1 at balance: moe.aux_coef = router_aux_loss_coef x chosen / layers";

}  // namespace

void read_softmax_gate(const ConfigJson& json, Settings& s, Renormalised renormalised) {
  const int64_t chosen = json.integer("num_experts_per_tok", 2);
  s.set("moe.gate", std::string_view("softmax"));
  s.set("moe.num_experts_per_tok", chosen);
  s.set("moe.normalize", std::string_view(renormalised == Renormalised::yes ? "before" : "none"));
  const double coef = json.number("router_aux_loss_coef", 0.);
  const auto layers = static_cast<double>(json.integer("num_hidden_layers"));
  s.set("moe.aux_coef", coef * static_cast<double>(chosen) / layers);
  if (coef > 0) s.notes.emplace_back(kAuxNote);
}

std::vector<Naming> qwen_names() {
  return {{"mlp.gate.weight", {"mlp.gate.weight"}},
          {"mlp.experts.gate_up_proj", {"mlp.experts.{e}.gate_proj.weight", "mlp.experts.{e}.up_proj.weight"}},
          {"mlp.experts.down_proj", {"mlp.experts.{e}.down_proj.weight"}},
          {"mlp.shared_experts.gate_up_proj.weight",
           {"mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"}},
          {"mlp.shared_experts.down_proj.weight", {"mlp.shared_expert.down_proj.weight"}},
          {"mlp.shared_expert_gate.weight", {"mlp.shared_expert_gate.weight"}}};
}

void read_qwen_experts(const ConfigJson& json, Settings& s) {
  read_softmax_gate(json, s, json.says_yes("norm_topk_prob") ? Renormalised::yes : Renormalised::no);
  s.set("moe.num_experts",
        json.has("num_local_experts") ? json.integer("num_local_experts") : json.integer("num_experts"));  // 5, 4
  s.set("moe.moe_intermediate_size", json.integer("moe_intermediate_size"));
  s.set("moe.every", json.integer("decoder_sparse_step", 1));
  s.set("moe.dense_layers", json.integers("mlp_only_layers"));
}

void write_qwen_experts(const Config& c, Json& json) {
  if (num_expert_layers(c) == c.model.num_hidden_layers) json.erase("intermediate_size");  // of no layer
  json["num_experts"] = c.moe.num_experts;
  json["num_experts_per_tok"] = c.moe.num_experts_per_tok;
  json["norm_topk_prob"] = c.moe.normalize != Normalize::none;
  json["moe_intermediate_size"] = c.moe.moe_intermediate_size;
  json["decoder_sparse_step"] = c.moe.every;
  json["mlp_only_layers"] = c.moe.dense_layers;
  json["router_aux_loss_coef"] = published_aux_coef(c);
}

void expect_softmax_gate(const Config& c, std::string_view family) {
  if (c.moe.gate != &softmax_gate || c.moe.order != GateOrder::softmax_first)
    input_error("{} chooses by a softmax over all experts: moe.gate = \"{}\", moe.order = \"{}\" have no place in it",
                family, c.moe.gate->name, word(c.moe.order));
}

double published_aux_coef(const Config& c) {
  return aux_coef(c) * static_cast<double>(c.model.num_hidden_layers) / static_cast<double>(c.moe.num_experts_per_tok);
}

}  // namespace plait::hub
