// An architecture from outside (extension/adapters.cpp): a config names it; it is refused, initialised, trained and
// compared with one rank as those of Plait are.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "base/testing/scratch_folder.h"
#include "checkpoint/parts.h"
#include "choices.h"
#include "corpus.h"
#include "extension/extension.h"
#include "model/moe_layer.h"
#include "train/run_shape.h"
#include "verify/verify.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

Config adapters(const Overrides& more = {}) {
  Overrides all = {"model.architecture=adapters", "model.hidden_size=16", "model.num_hidden_layers=2",
                   "moe.num_experts=4",           "moe.z_coef=0.1",       "moe.moe_intermediate_size=12",
                   "train.batch_size=8",          "train.seq_length=8",   "mesh.threads=1"};
  all.insert(all.end(), more.begin(), more.end());
  return ready_config("", all, {}, extension::catalogue());
}

std::string said(const Overrides& more) {
  return refusal<InputError>([&] { adapters(more); });
}

std::string catalogue_refusal(const Architecture& one) {
  Catalogue c = built_in();
  c.architectures.push_back(&one);
  return refusal<InputError>([&] { check_catalogue(c); });
}

TEST(OwnArchitecture, has_a_name_of_its_own_a_check_and_code) {
  EXPECT_EQ(catalogue_refusal(extension::adapters), "accepted");
  Architecture one = extension::adapters;
  one.name = "mixtral";
  EXPECT_EQ(catalogue_refusal(one), "catalogue: the name \"mixtral\" of an architecture is taken; give each its own");
  one = extension::adapters;
  one.code = nullptr;
  EXPECT_EQ(catalogue_refusal(one), "catalogue: the architecture \"adapters\" has no code");
  one = extension::adapters;
  one.check = nullptr;
  EXPECT_EQ(catalogue_refusal(one), "catalogue: the architecture \"adapters\" has no check");
}

const Parameter& parameter(const TrainingStep& step, const std::string& name) {
  return *std::ranges::find(step.parameters, name, &Parameter::name);
}

at::Tensor start(const TrainingStep& step, const std::string& name) {
  return initial_part(parameter(step, name), stored(step).at(name), 1, {step.schedule.mesh, 0, {}, {}, at::kDouble});
}

TEST(OwnArchitecture, is_named_by_a_config_and_refused_like_those_of_plait) {
  EXPECT_EQ(adapters().model.architecture, &extension::adapters);
  EXPECT_NE(to_toml(adapters()).find("architecture = \"adapters\"\n"), std::string::npos);
  EXPECT_EQ(to_toml(adapters()).find("rope_theta"), std::string::npos);
  EXPECT_EQ(idle_note(adapters({"model.num_attention_heads=8"})),
            "no effect here: model.num_attention_heads: adapters does not read it (model.architecture)");
  EXPECT_EQ(said({"moe.every=2"}), "moe.every = 2, but every layer of adapters has experts: set it to 1");
  EXPECT_EQ(said({"mesh.tp=3"}), "model.vocab_size = 256 is not divisible by mesh.tp = 3");
  EXPECT_EQ(refusal<InputError>([] { load_config("", Overrides{"model.architecture=adapters"}); }),
            "override model.architecture=adapters: model.architecture = 'adapters', expected one of \"mixtral\", "
            "\"qwen2_moe\", \"qwen3_moe\", \"olmoe\", \"gpt2\"");
}

TEST(OwnArchitecture, has_the_parameters_that_its_blocks_declare) {
  const TrainingStep step = build_step(run_shape(adapters()));
  std::vector<std::string> names;
  for (const Parameter& p : step.parameters) names.push_back(p.name);
  const auto of_layer = [](int64_t l) {
    Overrides all = {"adapter.down",          "adapter.up",        "mlp.gate.weight", "mlp.experts.gate_up_proj",
                     "mlp.experts.down_proj", "output_norm.weight"};
    for (std::string& part : all) part = layer_name(l, part);
    return all;
  };
  Overrides expected = {"model.embed_tokens.weight"};
  for (int64_t l : {0, 1})
    for (const std::string& name : of_layer(l)) expected.push_back(name);
  EXPECT_EQ(names, expected);
}

TEST(OwnArchitecture, starts_its_parameters_as_they_are_declared) {
  const TrainingStep step = build_step(run_shape(adapters()));
  EXPECT_TRUE(start(step, layer_name(1, "adapter.up")).eq(0).all().item<bool>());
  EXPECT_TRUE(start(step, layer_name(1, "output_norm.weight")).eq(1).all().item<bool>());
  const at::Tensor down = start(step, layer_name(1, "adapter.down"));
  EXPECT_NEAR(down.std().item<double>(), 0.5, 0.1);
  EXPECT_FALSE(down.equal(start(step, layer_name(0, "adapter.down"))));
}

TEST(OwnArchitecture, trains_at_every_layout_as_on_one_rank) {
  const data::Corpus corpus = random_corpus(4000);
  for (const Overrides& layout : {Overrides{"mesh.tp=2", "mesh.ep=2"},
                                  {"mesh.tp=2", "mesh.ep=2", "schedule.moe=ted", "memory.zero=1"},
                                  {"mesh.ep=2", "mesh.dp=4", "memory.zero=3", "memory.recompute=full"},
                                  {"mesh.ep=4", "moe.gate=sigmoid", "memory.recompute=selective"},
                                  {"mesh.tp=2", "mesh.ep=2", "schedule.moe=s1", "train.micro_batch_size=2"}}) {
    const VerifyReport report = verify(adapters(layout), corpus);
    EXPECT_TRUE(report.agrees()) << fmt::format("{}: {}", fmt::join(layout, " "), report.largest());
    EXPECT_TRUE(std::ranges::any_of(report.differences, [](const Difference& d) { return d.group == "adapters"; }));
  }
}

TEST(OwnArchitecture, has_a_moe_layer_that_stands_alone) {
  ModelSizes sizes = run_shape(adapters({"model.num_hidden_layers=1", "mesh.ep=2"})).sizes;
  const MoeLayer layer = build_moe_layer(Mesh({.ranks = 2, .ep = 2}), sizes);
  EXPECT_NO_THROW(check(layer.schedule));
  EXPECT_EQ(layer.parameters.size(), 3U);
}

// What differs from one rank by more than rounding; empty where nothing does.
std::string differing(const VerifyReport& report) {
  std::string all = report.replicas.empty() ? "" : "replicas: " + report.replicas.front();
  for (const Difference& d : report.differences)
    if (!(d.relative < 1e-9))
      all += fmt::format("{}{} of {}: {:.1e}", all.empty() ? "" : "; ", d.what, d.worst, d.relative);
  return all;
}

Overrides gpt2_keys(const Overrides& more = {}) {
  Overrides all = {"model.architecture=gpt2",
                   "model.hidden_size=8",
                   "model.num_attention_heads=4",
                   "model.num_hidden_layers=2",
                   "model.hidden_act=gelu_tanh",
                   "model.intermediate_size=12",
                   "moe.every=2",
                   "moe.num_experts=4",
                   "moe.moe_intermediate_size=8",
                   "train.batch_size=8",
                   "train.seq_length=8",
                   "mesh.threads=1"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Config gpt2(const Overrides& more = {}) { return ready_config("", gpt2_keys(more)); }

TEST(Gpt2, has_biases_everywhere_and_positions) {
  const TrainingStep step = build_step(run_shape(gpt2({"mesh.tp=2", "mesh.ep=2"})));
  Overrides names, expected = {"model.embed_tokens.weight", "model.embed_positions.weight"};
  for (const Parameter& p : step.parameters) names.push_back(p.name);
  const auto add = [&](int64_t l, const Overrides& parts) {
    for (const std::string& part : parts) expected.push_back(layer_name(l, part));
  };
  const Overrides both = {"input_layernorm.weight",          "input_layernorm.bias",
                          "self_attn.q_proj.weight",         "self_attn.q_proj.bias",
                          "self_attn.k_proj.weight",         "self_attn.k_proj.bias",
                          "self_attn.v_proj.weight",         "self_attn.v_proj.bias",
                          "self_attn.o_proj.weight",         "self_attn.o_proj.bias",
                          "post_attention_layernorm.weight", "post_attention_layernorm.bias"};
  add(0, both);
  add(0, {"mlp.up_proj.weight", "mlp.up_proj.bias", "mlp.down_proj.weight", "mlp.down_proj.bias"});
  add(1, both);
  add(1, {"mlp.gate.weight", "mlp.experts.up_proj", "mlp.experts.up_proj_bias", "mlp.experts.down_proj",
          "mlp.experts.down_proj_bias"});
  for (const char* part : {"model.norm.weight", "model.norm.bias"}) expected.emplace_back(part);
  EXPECT_EQ(names, expected);
  EXPECT_EQ(parameter(step, "model.embed_positions.weight").dims.front().size, 8);
}

TEST(Gpt2, refuses_texts_longer_than_its_positions) {
  EXPECT_EQ(refusal<InputError>([] { gpt2({"model.max_position_embeddings=4"}); }),
            "train.seq_length = 8 is more than model.max_position_embeddings = 4: later positions have no embedding");
}

// Each family with each gate; layouts, shares and recomputation by turns, so that all pairs of those come too.
TEST(Gpt2, trains_at_every_layout_as_on_one_rank) {
  const data::Corpus corpus = random_corpus(4000);
  const std::vector<Overrides> layouts = {{"mesh.tp=2", "mesh.ep=2"},
                                          {"mesh.ep=2", "mesh.dp=4"},
                                          {"mesh.tp=2", "mesh.ep=2", "train.micro_batch_size=2"},
                                          {"mesh.tp=2", "mesh.ep=2", "moe.capacity=1.5"}};
  const Overrides zero = {"memory.zero=0", "memory.zero=1", "memory.zero=3"},
                  recompute = {"memory.recompute=none", "memory.recompute=selective", "memory.recompute=full"};
  size_t f = 0, verified = 0;
  for (const FamilySpec* family : families::all()) {
    size_t g = 0;
    for (const GateSpec* gate : built_in().gates) {
      Overrides more = layouts[(f + g) % 4];
      more.insert(more.end(), {fmt::format("schedule.moe={}", family->name), fmt::format("moe.gate={}", gate->name),
                               zero[(f + 2 * g) % 3], recompute[(f + g / 3) % 3]});
      if (gate == &switch_gate) more.push_back("moe.num_experts_per_tok=1");
      ++g;
      std::optional<Config> config;
      const std::string refused = refusal<InputError>([&] { config = gpt2(more); });
      if (!config) {
        EXPECT_NE(refused.find("moe."), std::string::npos) << refused;
        continue;
      }
      if (!near_choice(*config, corpus).empty()) continue;
      EXPECT_EQ(differing(verify(*config, corpus)), "") << fmt::format("{}", fmt::join(more, " "));
      ++verified;
    }
    ++f;
  }
  EXPECT_GE(verified, 30U);
}

TEST(Gpt2, trains_without_experts_and_where_esp_is_not_tp) {
  const data::Corpus corpus = random_corpus(4000);
  for (const Overrides& layout : {Overrides{"moe.every=0", "mesh.tp=2", "mesh.dp=2", "memory.zero=3"},
                                  {"moe.every=0", "mesh.tp=4", "memory.recompute=full", "train.micro_batch_size=4"},
                                  {"mesh.tp=2", "mesh.esp=4", "mesh.ep=2", "moe.every=1"},
                                  {"mesh.tp=4", "mesh.esp=2", "mesh.ep=2", "schedule.moe=parm", "memory.zero=1"},
                                  {"mesh.tp=2", "mesh.esp=1", "mesh.ep=4", "schedule.chunks=2", "schedule.moe=s2"},
                                  {"mesh.tp=2", "mesh.ep=2", "schedule.moe=s2", "schedule.slice=tokens"},
                                  {"mesh.ep=4", "mesh.node=2", "schedule.dispatch=node"},
                                  {"mesh.ep=4", "mesh.node=2", "schedule.dispatch=levels", "schedule.chunks=2"},
                                  {"mesh.tp=2", "mesh.ep=2", "schedule.moe=s1", "schedule.fuse=yes"}}) {
    EXPECT_EQ(differing(verify(gpt2(layout), corpus)), "") << fmt::format("{}", fmt::join(layout, " "));
  }
}

}  // namespace
}  // namespace plait
