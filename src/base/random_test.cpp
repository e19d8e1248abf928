#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "base/errors.h"

namespace plait {
namespace {

TEST(Random, never_changes_between_versions) {
  EXPECT_EQ(hash64(0, 0), 0xa706dd2f4d197e6fu);
  EXPECT_EQ(hash64(1, 2), 0x0b95f66d327e8d78u);
  EXPECT_EQ(hash_name("embed.weight"), 0x0478e8b4b9d87e2au);
}

TEST(Random, depends_on_seed_name_and_index) {
  const uint64_t key = random_key(1, "layers.0.wq");
  EXPECT_NE(key, random_key(2, "layers.0.wq"));
  EXPECT_NE(key, random_key(1, "layers.1.wq"));
  EXPECT_NE(hash64(1, 2), hash64(2, 1));
  EXPECT_EQ(normal(key, 7), normal(random_key(1, "layers.0.wq"), 7));
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 100; ++a)
    for (uint64_t b = 0; b < 100; ++b) seen.insert(hash64(a, b));
  EXPECT_EQ(seen.size(), 10000u);
}

TEST(Random, flips_half_the_bits_for_one_bit_of_input) {
  for (int bit = 0; bit < 64; ++bit) {
    double by_a = 0, by_b = 0;
    for (uint64_t i = 0; i < 400; ++i) {
      const uint64_t base = hash64(i, 3 * i);
      by_a += std::popcount(base ^ hash64(i ^ (uint64_t{1} << bit), 3 * i)) / 400.0;
      by_b += std::popcount(base ^ hash64(i, (3 * i) ^ (uint64_t{1} << bit))) / 400.0;
    }
    EXPECT_NEAR(by_a, 32, 1.5) << "bit " << bit;
    EXPECT_NEAR(by_b, 32, 1.5) << "bit " << bit;
  }
}

TEST(Random, uniform_fills_the_open_interval_evenly) {
  std::vector<int> bins(20);
  for (uint64_t i = 0; i < 20000; ++i) {
    const double u = uniform(5, i);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<size_t>(u * 20)];
  }
  double chi2 = 0;
  for (int n : bins) chi2 += (n - 1000.0) * (n - 1000.0) / 1000;
  EXPECT_LT(chi2, 43.8);  // 19 degrees of freedom, p = 0.001
}

TEST(Random, normal_has_the_moments_of_a_normal) {
  const int n = 40000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0;
  for (int i = 0; i < n; ++i) {
    const double x = normal(9, i);
    m1 += x / n, m2 += x * x / n, m3 += x * x * x / n, m4 += x * x * x * x / n;
    lag += x * normal(9, i + 1) / n;
  }
  EXPECT_NEAR(m1, 0, 0.02);
  EXPECT_NEAR(m2, 1, 0.03);
  EXPECT_NEAR(m3, 0, 0.06);
  EXPECT_NEAR(m4, 3, 0.2);
  EXPECT_NEAR(lag, 0, 0.02);
}

TEST(Random, uniform_below_reaches_every_value_and_no_other) {
  std::vector<int> seen(7);
  for (uint64_t i = 0; i < 700; ++i) ++seen.at(uniform_below(3, i, 7));
  EXPECT_GT(*std::ranges::min_element(seen), 60);
  EXPECT_THROW(uniform_below(3, 0, 0), ContractError);
}

}  // namespace
}  // namespace plait
