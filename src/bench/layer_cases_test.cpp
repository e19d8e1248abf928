#include "bench/layer_cases.h"

#include <gtest/gtest.h>

#include <set>

#include "base/errors.h"

namespace plait {
namespace {

TEST(LayerCases, have_every_family_at_both_layouts_of_two_ranks) {
  std::set<std::string> seen;
  for (const LayerCase& c : layer_cases({.part = "families"})) {
    EXPECT_EQ(num_ranks(c.config), 2);
    EXPECT_EQ(c.config.schedule.moe->name, c.family);
    seen.insert(c.family + " " + c.layout);
  }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(LayerCases, have_every_gate_that_a_config_can_name) {
  std::set<std::string> seen;
  for (const LayerCase& c : layer_cases({.part = "gates"})) seen.insert(std::string(c.config.moe.gate->name));
  for (const char* gate : {"softmax", "switch", "gshard", "sigmoid", "expert_choice", "base", "hash", "noisy_topk"})
    EXPECT_EQ(seen.count(gate), 1u) << gate;
}

TEST(LayerCases, give_each_rank_as_many_tokens_at_every_layout) {
  for (const LayerCase& c : layer_cases({.part = "shapes", .shape = 1}))
    EXPECT_EQ(c.config.train.batch_size * c.config.train.seq_length, 2048 * num_ranks(c.config)) << c.layout;
}

TEST(LayerCases, are_chosen_by_the_beginning_of_a_name_and_changed_by_keys) {
  const auto cases = layer_cases({.part = "shape", .shape = 3, .layout = "ep2", .overrides = {"moe.num_experts=16"}});
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].config.moe.num_experts, 16);
}

TEST(LayerCases, refuse_a_choice_that_names_nothing) {
  EXPECT_THROW(layer_cases({.family = "sharted"}), InputError);
  EXPECT_THROW(layer_cases({.overrides = {"moe.num_experts=3"}}), InputError);  // not divisible by ep
}

}  // namespace
}  // namespace plait
