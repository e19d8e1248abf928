// An architecture from outside (extension/adapters.cpp): a config names it; it is refused, initialised, trained and
// compared with one rank as those of Plait are.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "base/testing/scratch_folder.h"
#include "checkpoint/parts.h"
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
            "override model.architecture=adapters: model.architecture = 'adapters', expected one of \"mixtral\"");
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

}  // namespace
}  // namespace plait
