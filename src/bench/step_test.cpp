#include "bench/step.h"

#include <gtest/gtest.h>

#include "data/corpus.h"
#include "plan/flops.h"

namespace plait {
namespace {

constexpr const char* kSmall = R"([model]
vocab_size = 64
hidden_size = 16
num_hidden_layers = 2
num_attention_heads = 2
intermediate_size = 32
[moe]
every = 2
num_experts = 4
moe_intermediate_size = 16
[train]
batch_size = 4
micro_batch_size = 1
seq_length = 16
[mesh]
threads = 1
)";

// Rows of experts are counted as they fall, so ranks differ; their sum is what the types say. Attention's products take
// the whole square of a block of rows, the estimate half of it.
TEST(BenchStep, counts_the_products_that_the_schedule_names) {
  for (const char* mesh : {"mesh.tp=1", "mesh.tp=2"}) {
    const std::vector<std::string> overrides = {mesh, "mesh.ep=2"};
    Config config = resolve(parse_config(kSmall, "small", overrides));
    validate(config);
    const double named = total_flops(build_step(run_shape(config)).schedule);
    const double squares = 7.0 * 2 * (4 * 2) * 16 * 16 * 8;  // products, layers, heads of all sequences, S, S, A
    EXPECT_NEAR(bench_step(config, 1).product_flops / (named + squares), 1, 1e-12) << mesh;
  }
}

TEST(BenchStep, gives_every_step_of_the_schedule_a_place) {
  const std::vector<std::string> overrides = {"mesh.tp=2"};
  Config config = resolve(parse_config(kSmall, "small", overrides));
  const Schedule s = build_step(run_shape(config)).schedule;
  const StepBench bench = bench_step(config, 2);
  int64_t listed = 0;
  for (const KindTime& kind : bench.kinds) {
    listed += kind.steps;
    EXPECT_GT(kind.ms, 0) << kind.kind;
  }
  EXPECT_EQ(listed, static_cast<int64_t>(s.steps.size()));
  EXPECT_EQ(bench.steps.size(), s.steps.size());
}

}  // namespace
}  // namespace plait
