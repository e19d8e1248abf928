// What the optimizer's keys say by patterns of names: what is frozen stays in every bit and costs no way back.
#include <gmock/gmock.h>

#include "base/errors.h"
#include "corpus.h"
#include "model/step.h"
#include "small_run.h"
#include "train/run_shape.h"
#include "verify/verify.h"

namespace plait {
namespace {

using Keys = std::vector<std::string>;

// What a run of 6 steps ends with, by name: whole tensors, moments too.
std::map<std::string, at::Tensor> trained(const ScratchFolder& folder, const std::string& name, const Keys& keys) {
  const RunReport report = run_to(small_run(folder / name, keys), random_corpus());
  std::map<std::string, at::Tensor> all;
  const Checkpoint end(report.checkpoint);
  for (const auto* list : {&end.model(), &end.optimizer()})
    for (const TensorInfo& info : *list) all[info.name] = end.read(info.name);
  return all;
}

bool is_frozen(const std::string& name) {
  return name.starts_with("model.embed_tokens") || name.find(".mlp.experts.") != std::string::npos;
}

TEST(Patterns, freeze_parameters_in_every_bit_at_any_layout) {
  const ScratchFolder folder;
  const std::string freeze = R"(optim.freeze=["model.embed_tokens.*", "*.mlp.experts.*"])",
                    untied = "model.tie_word_embeddings=false";
  for (const Keys& layout :
       {Keys{}, {"mesh.tp=2", "mesh.ep=2"}, {"mesh.ep=2", "memory.zero=3", "memory.recompute=full"}}) {
    Keys keys = layout;
    keys.insert(keys.end(), {freeze, untied, "optim.weight_decay=0.5"});
    const auto name = [&](int steps) { return fmt::format("{}-{}", fmt::join(layout, "-"), steps); };
    Keys shorter = keys, longer = keys;
    shorter.push_back("train.steps=1"), longer.push_back("train.steps=3");
    const auto one = trained(folder, name(1), shorter), three = trained(folder, name(3), longer);
    ASSERT_EQ(one.size(), three.size());
    for (const auto& [parameter, tensor] : three) {
      EXPECT_EQ(tensor.equal(one.at(parameter)), is_frozen(parameter)) << parameter;
      EXPECT_FALSE(is_frozen(parameter) && (parameter.ends_with(".m") || parameter.ends_with(".v"))) << parameter;
    }
  }
}

TEST(Patterns, leave_out_the_way_back_that_only_the_frozen_would_read) {
  const Config whole = small_run("runs/none", {"mesh.tp=2", "mesh.ep=2"});
  Config frozen = whole;
  frozen.optim.freeze = {"*.mlp.experts.*"};
  const TrainingStep a = build_step(run_shape({whole, {}})), b = build_step(run_shape({frozen, {}}));
  EXPECT_LT(b.schedule.steps.size(), a.schedule.steps.size());
  for (const auto& [made, of] : b.schedule.cotangent_of)
    EXPECT_FALSE(
        b.schedule.names[of].find(".mlp.experts.") != std::string::npos &&
        std::ranges::any_of(b.schedule.steps, [&](const Step& s) { return std::ranges::count(s.out, made) > 0; }))
        << b.schedule.names[made];
  EXPECT_FALSE(b.gradients.contains("model.layers.1.mlp.experts.down_proj"));
}

TEST(Patterns, of_frozen_parameters_agree_with_one_rank) {
  const data::Corpus corpus = random_corpus();
  for (const char* family : {"dtd", "sharded", "s1"})
    for (const char* zero : {"memory.zero=0", "memory.zero=3"}) {
      const VerifyReport report =
          verify(small_run("runs/none", {"mesh.tp=2", "mesh.ep=2", zero, fmt::format("schedule.moe={}", family),
                                         R"(optim.freeze=["*.self_attn.*"])", R"(optim.lr_factors=["*norm*=0.5"])"}),
                 corpus);
      EXPECT_TRUE(report.agrees()) << family << " " << zero << " " << report.largest();
    }
}

TEST(Patterns, scale_learning_rate_and_decay_of_what_they_fit) {
  const ScratchFolder folder;
  const auto once = trained(folder, "start", {"train.steps=1"});
  const auto none = trained(folder, "none", {"train.steps=1", R"(optim.lr_factors=["*=0"])"}),
             half = trained(folder, "half", {"train.steps=1", R"(optim.lr_factors=["*=0", "*q_proj*=0.5"])"});
  const std::string q = "model.layers.0.self_attn.q_proj.weight", k = "model.layers.0.self_attn.k_proj.weight";
  EXPECT_TRUE(half.at(k).equal(none.at(k)));
  const at::Tensor whole_way = once.at(q).sub(none.at(q)), half_way = half.at(q).sub(none.at(q));
  EXPECT_LT(half_way.mul(2).sub(whole_way).abs().max().item<double>(), 1e-6);
  EXPECT_GT(whole_way.abs().max().item<double>(), 1e-4);
  const OptimConfig optim{.decay_factors = {"*=0", "*.weight=2"}};
  EXPECT_EQ(decay_factor(optim, "a.weight"), 2);
  EXPECT_EQ(decay_factor(optim, "a.bias"), 0);
}

TEST(Patterns, that_fit_nothing_or_all_or_are_none_are_refused) {
  const ScratchFolder folder;
  const auto says = [&](const Keys& keys) {
    return refusal<InputError>([&] { run_to(small_run(folder.str(), keys), random_corpus()); });
  };
  EXPECT_THAT(says({R"(optim.freeze=["*.mpl.*"])"}), testing::HasSubstr("optim.freeze: no parameter fits \"*.mpl.*\""));
  EXPECT_THAT(says({R"(optim.freeze=["*"])"}), testing::HasSubstr("there is nothing to train"));
  EXPECT_THAT(says({R"(optim.lr_factors=["*.mlp.*"])"}), testing::HasSubstr("expected PATTERN=FACTOR"));
  EXPECT_THAT(says({R"(optim.decay_factors=["*=-1"])"}), testing::HasSubstr("expected PATTERN=FACTOR"));
}

}  // namespace
}  // namespace plait
