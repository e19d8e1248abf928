// Rotary frequencies: which stay, which are stretched, and how the two meet.
#include "schedule/rotary.h"

#include <gmock/gmock.h>

#include <cmath>

namespace plait {
namespace {

TEST(Rotary, frequencies_fall_by_powers_of_theta) {
  EXPECT_THAT(rope_frequencies(4, 100, {}), testing::ElementsAre(1, testing::DoubleNear(0.1, 1e-15)));
  EXPECT_EQ(rope_amplitude({}), 1);
}

TEST(Rotary, linear_stretches_all_alike) {
  EXPECT_THAT(rope_frequencies(4, 100, {.type = RopeType::linear, .factor = 4}),
              testing::ElementsAre(0.25, testing::DoubleNear(0.025, 1e-15)));
}

// Waves of 2 pi, 2 pi 10^1 .. 2 pi 10^3 positions go 159, 15.9, 1.59 and 0.159 times into a text of 1000.
TEST(Rotary, llama3_keeps_the_short_waves_and_stretches_the_long_ones) {
  const RopeScaling scaling{
      .type = RopeType::llama3, .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_positions = 1000};
  const std::vector<double> f = rope_frequencies(8, 10000, scaling);
  EXPECT_DOUBLE_EQ(f[0], 1);
  EXPECT_DOUBLE_EQ(f[1], 0.1);
  const double kept = (1000 * 0.01 / (2 * M_PI) - 1) / 3;
  EXPECT_NEAR(f[2], 0.01 * (kept + (1 - kept) / 8), 1e-15);
  EXPECT_NEAR(f[3], 0.001 / 8, 1e-18);
  EXPECT_EQ(rope_amplitude(scaling), 1);
}

// Of 8 pairs the first that turns 32 times or less over 4096 positions, and the last that turns at least once.
TEST(Rotary, yarn_goes_from_the_pairs_that_stay_to_those_that_are_stretched) {
  const RopeScaling scaling{.type = RopeType::yarn, .factor = 16, .original_positions = 4096};
  const std::vector<double> f = rope_frequencies(16, 10000, scaling), plain = rope_frequencies(16, 10000, {});
  // 16 ln(4096 / (32 * 2 pi)) / (2 ln 10000) = 2.6, and 16 ln(4096 / (2 pi)) / (2 ln 10000) = 5.6
  for (size_t i = 0; i < f.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - 2) / (6 - 2), 0., 1.);
    EXPECT_NEAR(f[i] / plain[i], 1 - stretched + stretched / 16, 1e-12) << i;
  }
  EXPECT_DOUBLE_EQ(rope_amplitude(scaling), 0.1 * std::log(16.) + 1);
  EXPECT_EQ(rope_amplitude({.type = RopeType::yarn, .factor = 16, .attention_factor = 1.5}), 1.5);
}

}  // namespace
}  // namespace plait
