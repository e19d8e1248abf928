// The helper that finds choices without a margin.
#include "margin.h"

#include <gtest/gtest.h>

#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

TEST(Margin, is_missed_where_an_expert_is_chosen_by_a_hair) {
  const at::Tensor logits = numbers({2, 3}, {3, 2, 1, 1, 2 + 1e-7, 2}, at::kDouble);
  EXPECT_EQ(near_choice({logits, {}, {.top_k = 1}}, 1e-9), "");
  EXPECT_EQ(near_choice({logits, {}, {.top_k = 1}}, 1e-6), "token 1 chooses otherwise when logits move by 1.0e-06");
  EXPECT_EQ(near_choice({logits, integers({2}, {1, 0}), {.top_k = 1}}, 1e-6), "") << "padding chooses nothing";
}

TEST(Margin, is_missed_between_kept_and_dropped) {
  const at::Tensor logits = numbers({3, 2}, {5, 0, 2, 0, 2 + 1e-7, 0}, at::kDouble);
  RouteOptions options{.drop = Drop::probs, .top_k = 1, .capacity = 2, .group = 3};
  EXPECT_EQ(near_choice({logits, {}, options}, 1e-9), "");
  EXPECT_NE(near_choice({logits, {}, options}, 1e-6).find("expert 0 keeps a route of score"), std::string::npos);
  options.capacity = 1;
  EXPECT_EQ(near_choice({logits, {}, options}, 1e-6), "") << "both are dropped";
  options.drop = Drop::position;
  EXPECT_EQ(near_choice({logits, {}, options}, 1e-6), "") << "scores decide nothing";
}

// So sure that no move of the logits shows in the scores.
TEST(Margin, is_missed_between_scores_that_are_all_one) {
  const RouteOptions options{.drop = Drop::probs, .top_k = 1, .capacity = 1, .group = 2};
  EXPECT_NE(near_choice({numbers({2, 2}, {90, 0, 80, 0}), {}, options}, 1e-9), "");
}

}  // namespace
}  // namespace plait::kernels
