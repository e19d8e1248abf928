// Every architecture at pairs of layout, family, gate and memory: what one rank computes.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "corpus.h"
#include "small_run.h"
#include "verify/verify.h"

namespace plait {
namespace {

using Keys = std::vector<std::string>;

Keys operator+(Keys a, const Keys& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Keys kTwoByTwo = {"mesh.tp=2", "mesh.ep=2"};

// Each family, gate, and way to save memory beside another layout.
const std::vector<Keys> kCases = {
    {"mesh.tp=2"},
    {"mesh.ep=4", "schedule.moe=dtd", "memory.zero=1"},
    kTwoByTwo + Keys{"schedule.moe=ted", "memory.recompute=full"},
    kTwoByTwo + Keys{"schedule.moe=dtd", "moe.gate=sigmoid", "memory.zero=3"},
    kTwoByTwo + Keys{"schedule.moe=s1", "moe.gate=switch", "moe.num_experts_per_tok=1", "train.micro_batch_size=2"},
    kTwoByTwo + Keys{"schedule.moe=s2", "schedule.chunks=2", "memory.recompute=selective"},
    kTwoByTwo + Keys{"schedule.moe=parm", "mesh.dp=4", "train.batch_size=16"},
    kTwoByTwo + Keys{"mesh.esp=1", "mesh.dp=2", "moe.capacity=1.0", "moe.normalize=none"},
    kTwoByTwo + Keys{"moe.every=0", "memory.zero=3"}};

void expect_agreement(const Keys& architecture) {
  const data::Corpus corpus = random_corpus();
  for (const Keys& each : kCases) {
    const Keys keys = Keys{"moe.every=1"} + architecture + each;
    const VerifyReport report = verify(small_run("runs/none", keys), corpus);
    EXPECT_TRUE(report.agrees()) << fmt::format("{}: {:.1e}", fmt::join(keys, " "), report.largest());
  }
}

TEST(Cover, of_llama_and_mixtral_with_all_their_options) {
  expect_agreement({"model.attention_bias=true", "model.sliding_window=5", "model.head_dim=6"});
  expect_agreement({"model.rope_type=yarn", "model.rope_factor=4", "model.rope_original_positions=16",
                    "moe.dense_layers=[0]", "model.num_key_value_heads=2"});
}

TEST(Cover, of_qwen2_moe) {
  expect_agreement({"model.architecture=qwen2_moe", "moe.shared_experts=1", "moe.shared_intermediate_size=20"});
}

TEST(Cover, of_qwen3_moe) { expect_agreement({"model.architecture=qwen3_moe", "model.head_dim=10"}); }

TEST(Cover, of_olmoe) { expect_agreement({"model.architecture=olmoe", "model.clip_qkv=0.02"}); }

}  // namespace
}  // namespace plait
