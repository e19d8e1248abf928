#include "train/loss_scale.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

using Step = LossScale::Step;

TEST(LossScale, halves_once_after_the_hysteresis_and_then_at_every_overflow) {
  LossScale scale(LossScaleRule{.initial_power = 4, .hysteresis = 2, .lowest = 4});
  EXPECT_EQ(scale.value(), 16);
  scale.update(Step::skipped);
  EXPECT_EQ(scale.value(), 16);
  scale.update(Step::skipped);
  EXPECT_EQ(scale.value(), 8);
  scale.update(Step::skipped);
  scale.update(Step::skipped);
  EXPECT_EQ(scale.value(), 4);
  EXPECT_EQ(scale.skipped(), 4);
}

TEST(LossScale, doubles_after_a_window_without_overflow_and_restores_the_hysteresis) {
  LossScale scale(LossScaleRule{.initial_power = 4, .window = 3, .hysteresis = 2});
  scale.update(Step::skipped);
  for (int i = 0; i < 2; ++i) scale.update(Step::made);
  EXPECT_EQ(scale.value(), 16);
  scale.update(Step::made);
  EXPECT_EQ(scale.value(), 32);
  scale.update(Step::skipped);
  EXPECT_EQ(scale.value(), 32);
  for (int i = 0; i < 2; ++i) scale.update(Step::made);
  scale.update(Step::skipped);
  EXPECT_EQ(scale.value(), 16);
}

TEST(LossScale, goes_on_where_its_state_was_saved) {
  const LossScaleRule rule{.initial_power = 4, .window = 3, .hysteresis = 2};
  LossScale scale(rule), loaded(rule);
  scale.update(Step::skipped);
  scale.update(Step::made);
  JsonLine line;
  scale.save(line);
  loaded.load(JsonObject::parse(line.str(), "state"));
  for (Step step : {Step::made, Step::made, Step::skipped, Step::skipped}) {
    scale.update(step);
    loaded.update(step);
    EXPECT_EQ(loaded.value(), scale.value());
    EXPECT_EQ(loaded.skipped(), scale.skipped());
  }
  loaded.load(JsonObject::parse("{}", "state"));
  EXPECT_EQ(loaded.value(), 16);
}

}  // namespace
}  // namespace plait
