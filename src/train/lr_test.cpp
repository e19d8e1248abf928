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

TEST(LearningRate, is_the_lowest_at_the_last_step_however_short_the_run_is_behind_its_warm_up) {
  for (int64_t warmup : {0, 1, 4})
    for (int64_t more : {1, 2, 3}) {
      const LearningRate lr{.highest = 1, .lowest = 0.2, .warmup_steps = warmup, .steps = warmup + more};
      if (lr.steps == 1) continue;
      EXPECT_DOUBLE_EQ(lr.at(lr.steps - 1), 0.2) << warmup << " + " << more;
      EXPECT_DOUBLE_EQ(lr.at(lr.steps), 0.2) << warmup << " + " << more;
      if (more == 3) EXPECT_DOUBLE_EQ(lr.at(warmup + 1), 0.6) << "half way down";
    }
}

}  // namespace
}  // namespace plait
