#include "base/statistics.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace plait {
namespace {

TEST(Statistics, a_median_is_the_middle_one_or_the_mean_of_the_two) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_THROW(median({}), ContractError);
}

TEST(Statistics, quartiles_lie_between_values) {
  const Quartiles q = quartiles({4, 1, 3, 2, 5});
  EXPECT_EQ(q.low, 2);
  EXPECT_EQ(q.median, 3);
  EXPECT_EQ(q.high, 4);
  EXPECT_EQ(quartiles({1, 2}).median, 1.5);
  EXPECT_EQ(quartiles({7}).high, 7);
}

TEST(Statistics, a_percentile_takes_its_part_of_the_way_between_neighbours) {
  EXPECT_EQ(percentile({0, 10}, 0.9), 9);
  EXPECT_EQ(percentile({2, 1}, 0), 1);
  EXPECT_EQ(percentile({2, 1}, 1), 2);
}

}  // namespace
}  // namespace plait
