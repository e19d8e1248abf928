#include "bench/layer.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

constexpr const char* kSmall = R"([model]
hidden_size = 16
num_hidden_layers = 1
num_attention_heads = 2
[moe]
every = 1
num_experts = 4
moe_intermediate_size = 24
[train]
seq_length = 16
[mesh]
threads = 1
)";

Config small(std::vector<std::string> overrides) {
  Config config = resolve(parse_config(kSmall, "small", overrides));
  validate(config);
  return config;
}

// bench_layer throws where the layer and the plain one differ.
TEST(BenchLayer, agrees_with_plain_aten_in_every_family) {
  for (const char* family : {"ted", "dtd", "parm", "s1", "s2", "sharded"})
    for (const char* layout : {"mesh.tp=1", "mesh.tp=2"})
      for (const char* glu : {"model.glu=true", "model.glu=false"}) {
        const std::string moe = std::string("schedule.moe=") + family;
        const LayerBench b = bench_layer(small({layout, "mesh.ep=2", glu, moe, "train.batch_size=4"}), {.repeats = 1});
        EXPECT_LT(b.difference, 1e-5) << family << layout;
        EXPECT_EQ(b.routes, 2 * b.tokens);
        EXPECT_EQ(b.dropped, 0);
      }
}

TEST(BenchLayer, agrees_with_plain_aten_for_every_gate) {
  for (const std::vector<std::string>& gate :
       std::vector<std::vector<std::string>>{{"moe.gate=softmax", "moe.normalize=none"},
                                             {"moe.gate=softmax", "moe.order=topk_first"},
                                             {"moe.gate=switch", "moe.num_experts_per_tok=1"},
                                             {"moe.gate=gshard"},
                                             {"moe.gate=sigmoid", "moe.normalize=none"},
                                             {"moe.gate=expert_choice", "moe.capacity=1.0"},
                                             {"moe.gate=base", "moe.num_experts_per_tok=1"},
                                             {"moe.gate=hash"}}) {
    std::vector<std::string> overrides = gate;
    overrides.insert(overrides.end(), {"mesh.ep=2", "train.batch_size=4"});
    EXPECT_LT(bench_layer(small(overrides), {.repeats = 1}).difference, 1e-5) << gate[0];
  }
}

TEST(BenchLayer, counts_what_stays_empty_of_a_padded_buffer) {
  const LayerBench b = bench_layer(small({"moe.gate=expert_choice", "moe.capacity=1.0"}), {.repeats = 1});
  EXPECT_EQ(b.padded, 0);  // experts fill all their slots
  EXPECT_GT(b.peak_bytes, 0);
}

// Reuse in place may save what liveness counts, and sizes are rounded up to an eighth.
TEST(BenchLayer, takes_no_more_memory_than_its_live_values_rounded_up) {
  const LayerBench b = bench_layer(small({"train.seq_length=64", "model.hidden_size=64"}), {.repeats = 1});
  EXPECT_GT(b.live_bytes, 0);
  EXPECT_LT(b.peak_bytes / b.live_bytes, 1.25);
}

TEST(BenchLayer, sums_every_step_under_one_kind_of_work) {
  const LayerBench b = bench_layer(small({"mesh.ep=2"}), {.repeats = 2});
  double work = 0, kinds = 0;
  for (const WorkTime& w : b.work) work += w.ms;
  for (const KindTime& k : b.kinds) kinds += k.ms;
  EXPECT_EQ(b.work.size(), 5u);
  EXPECT_NEAR(work / kinds, 1, 1e-9);
}

}  // namespace
}  // namespace plait
