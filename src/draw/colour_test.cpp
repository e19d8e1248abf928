#include "draw/colour.h"

#include <gtest/gtest.h>

#include "draw/timeline.h"

namespace plait {
namespace {

TEST(Contrast, is_that_of_wcag) {
  EXPECT_NEAR(contrast("#000000", "#ffffff"), 21, 1e-9);
  EXPECT_NEAR(contrast("#777777", "#ffffff"), 4.48, 0.005) << "the grey that just fails";
  EXPECT_EQ(contrast("#123456", "#123456"), 1);
}

TEST(Ink, can_be_read_on_every_kind_of_step) {
  for (int k = 0; k < kStepKinds; ++k) {
    const auto kind = static_cast<StepKind>(k);
    EXPECT_GE(contrast(ink_on(colour(kind)), colour(kind)), 4.5) << name(kind);
  }
  EXPECT_EQ(ink_on(colour(StepKind::other)), "#111111") << "a pale one";
  EXPECT_EQ(ink_on(colour(StepKind::update)), "#ffffff") << "a dark one";
}

TEST(Colours, of_memory_are_not_those_of_steps_nor_of_one_another) {
  for (int c = 0; c < kMemoryClasses; ++c) {
    const auto what = static_cast<MemoryClass>(c);
    for (int k = 0; k < kStepKinds; ++k)
      EXPECT_GT(distance(colour(what), colour(static_cast<StepKind>(k))), 100)
          << name(what) << ", " << name(static_cast<StepKind>(k));
    for (int other = 0; other < c; ++other)
      EXPECT_GT(distance(colour(what), colour(static_cast<MemoryClass>(other))), 100) << name(what) << ", " << other;
  }
}

}  // namespace
}  // namespace plait
