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

TEST(Text, that_any_terminal_can_show_is_left_as_it_is) {
  const std::string plain = "To be,\n\tor n\u00f6t \u20ac \U0001f600";
  EXPECT_EQ(visible(plain), plain);
}

TEST(Text, that_would_control_a_terminal_is_shown) {
  EXPECT_EQ(visible(std::string("a\0b\x1b[2Jc\x7f\r", 10)), "a\\x00b\\x1b[2Jc\\x7f\\x0d");
  EXPECT_EQ(visible("\xc2\x9b"), "\\xc2\\x9b") << "a control of Latin-1";
  EXPECT_EQ(visible("caf\xe9 \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82"),
            "caf\\xe9 \\xc0\\x80 \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xe2\\x82");
}

TEST(Text, in_pieces_is_shown_as_the_whole) {
  const std::string text = "a\u20ac\U0001f600\xe2\x82z\xf0\x9f\x1b\xe9";
  VisiblePieces pieces;
  std::string shown;
  for (const char byte : text) shown += pieces.add({&byte, 1});
  EXPECT_EQ(shown + pieces.end(), visible(text));
  EXPECT_EQ(pieces.end(), "");
}

}  // namespace
}  // namespace plait
