#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace plait {
namespace {

TEST(Text, edit_distance_counts_the_four_kinds_of_slip) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("heads", "haeds"), 1u);
  EXPECT_EQ(edit_distance("same", "same"), 0u);
}

TEST(Text, nearest_finds_a_slip_and_leaves_strangers_alone) {
  const std::vector<std::string> keys = {"moe.num_experts", "moe.num_experts_per_tok", "train.steps"};
  EXPECT_EQ(nearest("moe.num_expert", keys), "moe.num_experts");
  EXPECT_EQ(nearest("trian.steps", keys), "train.steps");
  EXPECT_EQ(nearest("colour", keys), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Text, join_puts_words_between_and_nowhere_else) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
}

TEST(Text, width_counts_letters_not_bytes) { EXPECT_EQ(display_width("µs→é"), 4u); }

}  // namespace
}  // namespace plait
