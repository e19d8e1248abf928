// The memory results of DeepSpeed-TED, from its own formulas.
#include "bench/ted_memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.h"
#include "model/step.h"
#include "plan/memory.h"

namespace plait {
namespace {

constexpr double kGb = 1e9;

double rounded(double bytes) { return std::round(bytes / kGb * 100) / 100; }

struct Row {
  double base;   // nominal
  double gb[3];  // at tp 1, 2, 4
};

TEST(TedMemory, states_take_what_the_paper_accounts) {
  for (const Row& row : {Row{1.3e9, {5.93, 3.33, 2.03}}, Row{2.7e9, {12.32, 6.92, 4.22}},
                         Row{6.7e9, {30.57, 17.17, 10.47}}, Row{13e9, {59.31, 33.31, 20.31}}})
    for (int i = 0; i < 3; ++i)
      EXPECT_DOUBLE_EQ(rounded(state_bytes({row.base, 16}, {.ranks = 128, .tp = 1 << i, .ep = 16})), row.gb[i])
          << row.base << " tp " << (1 << i);
}

TEST(TedMemory, states_from_the_shapes_are_a_little_smaller) {
  const TedRanks one{.ranks = 128, .tp = 1, .ep = 16};
  EXPECT_DOUBLE_EQ(rounded(state_bytes(ted_model(24, 2048, 16), one)), 5.51);
  EXPECT_DOUBLE_EQ(rounded(state_bytes(ted_model(24, 2048, 16), {128, 2, 16})), 3.10);
  EXPECT_DOUBLE_EQ(rounded(state_bytes(ted_model(24, 2048, 16), {128, 4, 16})), 1.89);
  EXPECT_DOUBLE_EQ(rounded(state_bytes(ted_model(32, 2560, 16), one)), 11.48);
  EXPECT_DOUBLE_EQ(rounded(state_bytes(ted_model(32, 4096, 16), one)), 29.39);
  EXPECT_DOUBLE_EQ(rounded(state_bytes(ted_model(40, 5120, 16), one)), 57.41);
}

TEST(TedMemory, experts_make_a_model_larger_by_a_third_of_their_number) {
  EXPECT_DOUBLE_EQ((TedModel{3e9, 16}.total()), 18e9);
  EXPECT_DOUBLE_EQ((TedModel{3e9, 1}.total()), 3e9);
}

TEST(TedMemory, tensor_parallelism_multiplies_the_largest_base_model) {
  for (double memory : {16 * kGb, 40 * kGb})
    for (int tp : {1, 2, 4, 6, 8}) {
      EXPECT_DOUBLE_EQ(largest_base(memory, tp), tp * memory / 4);
      const TedRanks ranks{.ranks = 128 * tp, .tp = tp, .ep = 16};
      EXPECT_NEAR(largest_base(memory, ranks, 16) / largest_base(memory, {128, 1, 16}, 16), tp, 1e-9);
      EXPECT_NEAR(state_bytes({largest_base(memory, ranks, 16), 16}, ranks), memory, 1);
      EXPECT_LT(largest_base(memory, ranks, 16), largest_base(memory, tp));
    }
  EXPECT_NEAR(largest_base(16 * kGb, {1 << 22, 4, 16}, 16), 16 * kGb, 1e-3 * 16 * kGb) << "many ranks: the limit";
}

TEST(TedMemory, tiles_bound_the_spike_of_the_update) {
  const TedModel many{2.7e9, 32}, large{6.7e9, 16};
  const TedRanks ranks{.ranks = 32, .tp = 1, .ep = 16};
  EXPECT_DOUBLE_EQ(rounded(optimizer_spike(many, ranks, 0)), 3.60);
  EXPECT_DOUBLE_EQ(rounded(optimizer_spike(large, ranks, 0)), 4.47);
  for (const TedModel& model : {many, large}) EXPECT_DOUBLE_EQ(optimizer_spike(model, ranks, kTile), 4.0 * kTile);
  EXPECT_DOUBLE_EQ(optimizer_spike({1e6, 1}, ranks, kTile), 4 * 1e6 / 3 / 32) << "smaller than a tile";
}

TEST(TedMemory, refuses_a_layout_that_does_not_divide) {
  EXPECT_THROW(state_bytes({1e9, 16}, {.ranks = 128, .tp = 6, .ep = 16}), ContractError);
}

TEST(TedMemory, of_a_planned_step_is_what_the_formula_says) {
  // 1.3B x 16 experts: 24 layers of 2048, on 128 ranks.
  const ModelSizes shape{.sequences = 64,
                         .positions = 8,
                         .vocab = 64,
                         .width = 2048,
                         .layers = 24,
                         .heads = 16,
                         .kv_heads = 16,
                         .ffn = 8192,
                         .glu = false,
                         .family = &families::ted,
                         .moe_every = 2,
                         .experts = 16,
                         .top_k = 1,
                         .expert_ffn = 8192};
  const Schedule step = build_step(Mesh({.ranks = 128, .tp = 2, .esp = 2, .ep = 16}), shape, {}).schedule;
  const MemoryUse use = plan_memory(step, check(step), {}).peak;
  const TedModel model = ted_model(24, 2048, 16);
  EXPECT_EQ(static_cast<double>(use.at({MemoryClass::parameters, true})), 4 * model.expert() / (2 * 16));
  EXPECT_EQ(static_cast<double>(use.at({MemoryClass::optimizer, true})), 8 * model.expert() / (2 * 16));
  const auto dense = static_cast<double>(use.at({MemoryClass::parameters, false}));
  EXPECT_GT(dense, 4 * model.non_expert() / 2);
  EXPECT_NEAR(dense, 4 * model.non_expert() / 2, 0.01 * dense) << "and embedding, norms and gates";
}

}  // namespace
}  // namespace plait
