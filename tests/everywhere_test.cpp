// Every family at ten layouts of up to 16 ranks, dropless and padded, against one rank: the whole matrix of `plait
// verify
// --all` on the smallest model, and ten training steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "choices.h"
#include "corpus.h"
#include "one_step.h"
#include "train/loop.h"
#include "verify/verify.h"
#include "verify/verify_matrix.h"

namespace plait {
namespace {

Config small() {
  return ready_config("", std::vector<std::string>{
                              "model.hidden_size=8", "model.num_hidden_layers=1", "moe.num_experts=4",
                              "moe.moe_intermediate_size=8", "moe.aux_coef=0.1", "moe.z_coef=0.1", "moe.capacity=0.75",
                              "moe.min_capacity=1", "train.batch_size=16", "train.seq_length=4", "mesh.threads=1"});
}

class Everywhere : public testing::TestWithParam<const FamilySpec*> {};

TEST_P(Everywhere, a_family_computes_what_one_rank_computes) {
  const data::Corpus corpus = random_corpus(4000);
  int verified = 0;
  for (const VerifyCase& v : verify_matrix(small())) {
    if (v.family != GetParam()) continue;
    if (!v.refusal.empty()) {
      // These two share experts among the ranks that share heads; other layouts are not theirs.
      EXPECT_TRUE((v.family == &families::ted || v.family == &families::dtd) && v.tp != v.esp)
          << v.text() << ": " << v.refusal;
      continue;
    }
    EXPECT_EQ(near_choice(v.config, corpus), "") << v.text();
    const VerifyReport report = verify(v.config, corpus);
    EXPECT_LT(report.largest(), 1e-9) << v.text();
    EXPECT_TRUE(report.replicas.empty()) << v.text() << ": " << report.replicas.front();
    ++verified;
  }
  const bool square = GetParam() == &families::ted || GetParam() == &families::dtd;
  EXPECT_EQ(verified, square ? 8 : 20);
}

INSTANTIATE_TEST_SUITE_P(Families, Everywhere, testing::ValuesIn(families::all()),
                         [](const auto& info) { return std::string(info.param->name); });

// A chunk computes the same rows in the same way, and forward its outputs only stand beside each other: to the bit.
// Sums of weight gradients over chunks round otherwise.
TEST(Variants, of_chunks_and_messages_compute_the_same) {
  for (const FamilySpec* family : {&families::ted, &families::dtd, &families::s1, &families::s2, &families::sharded})
    for (int64_t capacity : {0, 8}) {
      ModelSizes sizes = small_sizes();
      sizes.family = family;
      sizes.aux_coef = 0.1;
      if (capacity) sizes.capacity = capacity, sizes.group = 8, sizes.drop = Drop::probs;
      StepCase c{.mesh = {4, 2, 2, 2},
                 .sizes = sizes,
                 .parameters = random_parameters(sizes),
                 .micro = {random_tokens(sizes)}};
      const StepOutcome whole = run_steps(c);
      for (bool fuse : {false, true})
        for (int64_t chunks : {1, 2, 4}) {
          if (fuse && (family == &families::ted || family == &families::dtd)) continue;
          c.sizes.fuse = fuse;
          c.sizes.chunks = chunks;
          const StepOutcome part = run_steps(c);
          const std::string what =
              fmt::format("family {}, capacity {}, fuse {}, {} chunks", family->name, capacity, fuse, chunks);
          if (!fuse) EXPECT_EQ(part.nll[0], whole.nll[0]) << what;
          EXPECT_NEAR(part.nll[0], whole.nll[0], 1e-13 * whole.nll[0]) << what;
          EXPECT_LT(largest_difference(part.gradients, whole.gradients), 1e-12) << what;
          EXPECT_EQ(part.kept, whole.kept) << what;
        }
    }
}

std::vector<double> losses(const Config& config, const RunShape& shape, const data::Corpus& corpus) {
  std::vector<double> all;
  launch::RankOptions options = rank_options(config);
  options.ranks = shape.mesh.ranks();
  wire::run_ranks(options, [&](int rank, wire::World& world) {
    Trainer trainer(config, shape, corpus, {rank, &world, at::kDouble});
    for (int step = 0; step < 10; ++step) {
      const double loss = trainer.step(step, 1e-2).nll;
      if (rank == 0) all.push_back(loss);
    }
  });
  return all;
}

TEST(TenSteps, are_alike_at_every_family_and_layout) {
  const data::Corpus corpus = random_corpus(4000);
  Config base = small();
  base.moe.capacity.reset();
  base.train.dtype = RunType::float64;
  const std::set<std::vector<int64_t>> layouts = {{2, 2, 2, 2}, {2, 4, 2, 4}, {4, 2, 4, 2}, {1, 2, 2, 4}};
  for (const VerifyCase& v : verify_matrix(base)) {
    if (v.padded || !v.refusal.empty() || !layouts.contains({v.tp, v.esp, v.ep, v.dp})) continue;
    const RunShape shape = run_shape(v.config);
    if (v.family == &families::sharded) EXPECT_EQ(near_choice(v.config, corpus, 10), "") << v.text();
    const std::vector<double> many = losses(v.config, shape, corpus), one = losses(v.config, one_rank(shape), corpus);
    for (size_t step = 0; step < 10; ++step)
      EXPECT_NEAR(many[step], one[step], 1e-9 * one[step]) << v.text() << ", step " << step + 1;
    EXPECT_LT(one[9], one[0]) << v.text();
  }
}

}  // namespace
}  // namespace plait
