#include "base/table.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace plait {
namespace {

TEST(Table, puts_words_left_and_numbers_right) {
  const std::string text = Table({"class", "count", "note"}).row({"experts", "12.3k", ""}).row({"é", "7", "few"}).str();
  EXPECT_EQ(text,
            "class    count  note\n"
            "-------  -----  ----\n"
            "experts  12.3k\n"
            "é            7  few\n");
}

TEST(Table, a_header_alone_is_a_table) { EXPECT_EQ(Table({"a", "bb"}).str(), "a  bb\n-  --\n"); }

TEST(Table, refuses_a_short_row) { EXPECT_THROW(Table({"a", "b"}).row({"1"}), ContractError); }

}  // namespace
}  // namespace plait
