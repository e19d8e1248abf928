#include "train/lr.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(LearningRate, warms_up_linearly_then_falls_along_a_cosine) {
  const LearningRate lr{.highest = 1, .lowest = 0.2, .warmup_steps = 4, .steps = 13};
  EXPECT_DOUBLE_EQ(lr.at(0), 0.25);
  EXPECT_DOUBLE_EQ(lr.at(1), 0.5);
  EXPECT_DOUBLE_EQ(lr.at(3), 1);
  EXPECT_DOUBLE_EQ(lr.at(4), 1);
  EXPECT_DOUBLE_EQ(lr.at(6), 0.6 + 0.4 * 0.70710678118654752);  // a quarter of the way
  EXPECT_DOUBLE_EQ(lr.at(8), 0.6);                              // half way
  EXPECT_DOUBLE_EQ(lr.at(12), 0.2);
  EXPECT_DOUBLE_EQ(lr.at(100), 0.2);
}

TEST(LearningRate, needs_no_warm_up_and_no_second_step) {
  const LearningRate flat{.highest = 3, .lowest = 3, .steps = 5};
  const LearningRate short_run{.highest = 1, .lowest = 0, .warmup_steps = 10, .steps = 2};
  EXPECT_DOUBLE_EQ(flat.at(0), 3);
  EXPECT_DOUBLE_EQ(flat.at(4), 3);
  EXPECT_DOUBLE_EQ(short_run.at(1), 0.2);
  EXPECT_DOUBLE_EQ((LearningRate{.highest = 1, .lowest = 0, .steps = 1}.at(0)), 1);
}

}  // namespace
}  // namespace plait
