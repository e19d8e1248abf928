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

TEST(Text, of_any_bytes_comes_back_from_letters) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string letters = percent_encoded(all);
  for (const char c : letters) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  EXPECT_EQ(percent_decoded(letters), all);
  EXPECT_EQ(percent_encoded("caf\xe9.txt"), "caf%E9.txt");
  for (const char* wrong : {"%", "%4", "%zz", "a%-1"}) EXPECT_EQ(percent_decoded(wrong), std::nullopt) << wrong;
}

TEST(Text, is_utf8_or_is_not) {
  for (const char* good :
       {"", "plain", "caf\u00e9", "\u20ac", "\U0001F600", "\x7f", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"caf\xe9", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"})
    EXPECT_FALSE(is_utf8(bad));
}

}  // namespace
}  // namespace plait
