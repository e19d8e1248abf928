#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.h"
#include "machine/machine_file.h"
#include "machine/testing/four_ranks.h"

namespace plait {
namespace {

TEST(Fit, finds_the_line_that_the_samples_lie_on) {
  const MessageFit fit = fit_messages(samples({.alpha = 40e-6, .beta = 1 / 25e6}));
  EXPECT_NEAR(fit.cost.alpha / 40e-6, 1, 1e-9);
  EXPECT_NEAR(fit.cost.beta * 25e6, 1, 1e-9);
  EXPECT_NEAR(fit.cost.r2, 1, 1e-12);
  EXPECT_LT(fit.worst, 1e-9);
}

// A plain least squares would give the start of a message away for the largest ones.
TEST(Fit, keeps_small_messages_right_where_large_ones_scatter) {
  const MessageFit fit = fit_messages(samples({.alpha = 40e-6, .beta = 1 / 25e6}, {1, 1.1, 0.9, 1, 1.05, 0.9, 1.1}));
  EXPECT_NEAR(fit.cost.alpha / 40e-6, 1, 0.1);
  EXPECT_NEAR(fit.cost.beta * 25e6, 1, 0.1);
  EXPECT_GT(fit.cost.r2, 0.95);
  EXPECT_LT(fit.cost.r2, 1);
  EXPECT_GT(fit.worst, 0.05);
  EXPECT_LT(fit.worst, 0.25);
}

TEST(Fit, starts_no_message_before_its_time) {
  std::vector<MessageSample> all = samples({.alpha = 0, .beta = 1 / 25e6});
  for (MessageSample& s : all) s.seconds *= 1 + 0.1 * std::log(s.bytes);  // dearer by the byte as they grow
  const MessageFit fit = fit_messages(all);
  EXPECT_EQ(fit.cost.alpha, 0);
  EXPECT_GT(fit.cost.beta, 1 / 25e6);
  const MessageFit shrinking = fit_messages(std::vector<MessageSample>{{256, 2e-5}, {1024, 1e-5}});
  EXPECT_EQ(shrinking.cost.beta, 0);
  EXPECT_GT(shrinking.cost.alpha, 1e-5);
  EXPECT_LT(shrinking.cost.alpha, 2e-5);
  EXPECT_DOUBLE_EQ(fit_messages(std::vector<MessageSample>{{256, 2e-5}}).cost.alpha, 2e-5);
}

TEST(Fit, refuses_nothing_and_no_time) {
  EXPECT_THROW(fit_messages({}), ContractError);
  EXPECT_THROW(fit_messages(std::vector<MessageSample>{{256, 0}}), ContractError);
}

TEST(Fitted, gives_each_group_its_own_line) {
  const Machine m = fitted(four_ranks());
  ASSERT_EQ(m.levels.size(), 2u);
  EXPECT_EQ(m.levels[0].ranks, 2);
  EXPECT_EQ(m.flops, 45e9);
  const auto alpha = [&](const Digits& digits) { return find_cost(m, digits, Collective::all_to_all)->alpha; };
  EXPECT_NEAR(alpha({{2, 1}}), 2e-6, 1e-12);
  EXPECT_NEAR(alpha({{2, 2}}), 20e-6, 1e-12);
  EXPECT_NEAR(alpha({{4, 1}}), 40e-6, 1e-12);
  EXPECT_EQ(m.groups[0].level, 0);
  EXPECT_EQ(m.groups[1].level, 1);
}

TEST(Fitted, lets_a_level_stand_for_groups_that_were_not_measured) {
  const Machine m = fitted(four_ranks());
  EXPECT_EQ(find_cost(m, {{8, 1}}, Collective::all_to_all), nullptr);
  EXPECT_NEAR(m.levels[0].of(Collective::all_gather).alpha, 2e-6, 1e-12);
  EXPECT_GT(m.levels[1].of(Collective::all_gather).alpha, 20e-6);
  EXPECT_LT(m.levels[1].of(Collective::all_gather).alpha, 40e-6);
}

TEST(Fitted, has_a_level_for_what_the_world_has) {
  Measured measured = four_ranks();
  measured.per_node = 4;
  EXPECT_EQ(fitted(measured).levels.size(), 1u);
  measured.per_node = 1;  // no group lies within a node
  const Machine m = fitted(measured);
  ASSERT_EQ(m.levels.size(), 2u);
  EXPECT_EQ(m.levels[0].cost, m.levels[1].cost);
}

TEST(Fitted, reads_back_from_its_file) {
  Machine m = fitted(four_ranks());
  m.name = "four ranks";
  m.pairs.push_back({{{2, 2}}, {{2, 1}}, Collective::all_to_all, Collective::all_gather, 0.6});
  EXPECT_EQ(parse_machine(to_toml(m), "machine.toml"), m);
}

}  // namespace
}  // namespace plait
