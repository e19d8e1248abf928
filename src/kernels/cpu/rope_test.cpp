#include "kernels/cpu/rope.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

constexpr double kTheta = 10000;

// As the formula has it: the pair (x[i], x[i + A/2]) as a complex number times e^(i s theta^(-2i/A)).
at::Tensor by_loops(const at::Tensor& x) {
  at::Tensor y = at::empty(x.sizes(), at::kDouble), wide = x.to(at::kDouble);
  int64_t half = x.size(3) / 2;
  auto from = wide.accessor<double, 4>(), to = y.accessor<double, 4>();
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t s = 0; s < x.size(1); ++s)
      for (int64_t h = 0; h < x.size(2); ++h)
        for (int64_t a = 0; a < half; ++a) {
          double angle = s * std::pow(kTheta, -static_cast<double>(a) / half);
          to[b][s][h][a] = from[b][s][h][a] * std::cos(angle) - from[b][s][h][a + half] * std::sin(angle);
          to[b][s][h][a + half] = from[b][s][h][a + half] * std::cos(angle) + from[b][s][h][a] * std::sin(angle);
        }
  return y;
}

TEST(Rope, turns_each_pair_of_features_by_its_angle) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor x = random({2, 50, 3, 20}, dtype), y = stale({2, 50, 3, 20}, dtype);
    with_threads([&](int) {
      rope(x, rope_table(50, 20, kTheta, dtype), Direction::forward, y);
      expect_close(y, by_loops(x), dtype == at::kFloat ? 3e-7 : 1e-14);
    });
  }
}

TEST(Rope, inverse_is_the_transpose_and_the_way_back) {
  RopeTable table = rope_table(9, 8, kTheta, at::kDouble);
  at::Tensor x = random({1, 9, 2, 8}, at::kDouble, 1), w = random({1, 9, 2, 8}, at::kDouble, 2);
  at::Tensor y = stale({1, 9, 2, 8}, at::kDouble), dx = stale({1, 9, 2, 8}, at::kDouble);
  rope(x, table, Direction::forward, y);
  rope(w, table, Direction::inverse, dx);
  EXPECT_NEAR(inner(y, w), inner(x, dx), 1e-12);
  rope(y, table, Direction::inverse, y);
  expect_close(y, x, 1e-14);
}

TEST(Rope, scores_depend_on_the_distance_only) {
  RopeTable table = rope_table(16, 8, kTheta, at::kDouble);
  at::Tensor q = random({8}, at::kDouble, 1).expand({1, 16, 1, 8}).contiguous();
  at::Tensor k = random({8}, at::kDouble, 2).expand({1, 16, 1, 8}).contiguous();
  rope(q, table, Direction::forward, q);
  rope(k, table, Direction::forward, k);
  EXPECT_NEAR(inner(q[0][7], k[0][3]), inner(q[0][12], k[0][8]), 1e-12);
}

TEST(Rope, refuses_odd_heads_and_short_tables) {
  EXPECT_THROW(rope_table(4, 7, kTheta, at::kFloat), ContractError);
  at::Tensor x = at::empty({1, 5, 1, 8});
  EXPECT_THROW(rope(x, rope_table(4, 8, kTheta, at::kFloat), Direction::forward, x), ContractError);
}

}  // namespace
}  // namespace plait::kernels
