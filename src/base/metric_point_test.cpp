#include "base/metric_point.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace plait {
namespace {

constexpr auto kMost = static_cast<int64_t>(MetricSeries::kMost);

MetricSeries series(int64_t count) {
  MetricSeries all;
  for (int64_t step = 1; step <= count; ++step) all.add({step, step == 3000 ? 1e6 : static_cast<double>(step % 10)});
  return all;
}

TEST(MetricSeries, keeps_every_point_of_a_short_run) {
  const MetricSeries all = series(kMost);
  ASSERT_EQ(all.means().size(), MetricSeries::kMost);
  EXPECT_EQ(all.means(), all.extremes());
  EXPECT_EQ(all.means()[41], (MetricPoint{42, 2}));
}

TEST(MetricSeries, of_a_million_steps_is_as_large_and_still_shows_a_spike) {
  const MetricSeries all = series(1'000'000);
  EXPECT_LE(all.means().size(), MetricSeries::kMost);
  EXPECT_GT(all.means().size(), MetricSeries::kMost / 4);
  EXPECT_NEAR(all.means().back().value, 4.5, 0.1);
  EXPECT_EQ(std::ranges::count(all.extremes(), MetricPoint{3000, 1e6}), 1);
  EXPECT_TRUE(std::ranges::is_sorted(all.extremes(), {}, &MetricPoint::step));
}

TEST(MetricSeries, joins_neighbours_when_one_more_comes) {
  const MetricSeries all = series(kMost + 1);
  ASSERT_EQ(all.means().size(), MetricSeries::kMost / 2 + 1);
  EXPECT_EQ(all.means()[0], (MetricPoint{2, 1.5}));
  EXPECT_EQ(all.means().back(), (MetricPoint{kMost + 1, static_cast<double>((kMost + 1) % 10)}));
}

}  // namespace
}  // namespace plait
