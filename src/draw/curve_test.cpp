#include "draw/curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plait {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

Curve falling(int64_t steps) {
  Curve curve{.title = "tiny <4 ranks>"};
  for (int64_t step = 1; step <= steps; ++step) {
    curve.train.push_back({step, 1.5 + 4 * std::exp(-step / 50.0)});
    if (step % 100 == 0) curve.validation.push_back({step, 1.6 + 4 * std::exp(-step / 50.0)});
  }
  return curve;
}

TEST(Curve, shows_lines_points_ticks_and_last_values) {
  const auto svg = draw_curve(falling(500));
  EXPECT_EQ(svg.find("<svg "), 0u);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "<polyline"), 3u);
  EXPECT_EQ(count(svg, "<circle"), 5u);
  EXPECT_NE(svg.find("tiny &lt;4 ranks&gt;"), std::string::npos);
  EXPECT_NE(svg.find("loss, nats per token"), std::string::npos);
  EXPECT_NE(svg.find("step 500: 1.6002"), std::string::npos);
  EXPECT_NE(svg.find(">1.600</text>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(count(svg, "http"), 1u) << "nothing is fetched: only the name of the format";
}

TEST(Curve, of_a_long_run_stays_small) {
  EXPECT_LT(draw_curve(falling(100'000)).size(), draw_curve(falling(1000)).size() + 90'000);
}

TEST(Curve, can_be_drawn_of_nothing_and_of_one_flat_value) {
  EXPECT_NE(draw_curve({.title = "empty"}).find("empty"), std::string::npos);
  const auto svg = draw_curve({.title = "flat", .train = {{1, 2.0}, {2, 2.0}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

TEST(Smoothed, is_a_mean_over_the_neighbours_on_both_sides) {
  for (const auto& point : smoothed({{1, 3}, {2, 3}, {3, 3}}, 5)) EXPECT_NEAR(point.value, 3, 1e-12);
  const auto peak = smoothed({{1, 0}, {2, 1}, {3, 0}}, 1);
  const double near = std::exp(-1.0), far = std::exp(-2.0);
  EXPECT_NEAR(peak[0].value, near / (1 + near + far), 1e-12);
  EXPECT_NEAR(peak[1].value, 1 / (1 + 2 * near), 1e-12);
  EXPECT_NEAR(peak[2].value, peak[0].value, 1e-12);
}

TEST(RoundTicks, are_round_numbers_inside) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(0, 1000, 8), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  const auto ticks = round_ticks(1.43, 1.61, 6);
  ASSERT_EQ(ticks.size(), 4u);
  EXPECT_NEAR(ticks[0], 1.45, 1e-12);
  EXPECT_NEAR(ticks[3], 1.6, 1e-12);
}

}  // namespace
}  // namespace plait
