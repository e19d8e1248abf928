#include "bench/grid_table.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace plait {
namespace {

GridTable two_layers() {
  const std::vector<GridLayer> layers = grid_layers(4, GridSize::quick);
  GridTable table{
      .header = {
          .links = "200mbit, \"slow\"", .ranks = 4, .lanes = NodeLanes{2}, .rounds = 5, .grid = "ab", .machine = "cd"}};
  table.results.push_back({layers[0],
                           {{.variant = "s1", .schedule = "s1, lanes", .ms = 12.5, .low = 12, .high = 13.25},
                            {.variant = "parm", .note = "moe.capacity = 1.2, too little"}}});
  table.results.push_back(
      {layers[1], {{.variant = "s1", .schedule = "s1", .ms = 7, .predicted_ms = 6.5, .differs = 1e-7}}});
  return table;
}

std::string refused(std::string_view text) {
  try {
    parse_grid(text, "g.jsonl");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(GridTable, reads_back_what_it_writes) {
  const GridTable table = two_layers();
  const std::string text = grid_lines(table);
  const GridTable again = parse_grid(text, "g.jsonl");
  EXPECT_EQ(grid_lines(again), text);
  EXPECT_EQ(again.header, table.header);
  ASSERT_EQ(again.results.size(), 2u);
  EXPECT_EQ(again.results[1].layer, table.results[1].layer);
  EXPECT_EQ(again.results[0].rows[1].note, table.results[0].rows[1].note);
  EXPECT_EQ(again.results[0].find("s1")->schedule, "s1, lanes");
  EXPECT_EQ(again.results[0].find("parm"), nullptr);
  EXPECT_TRUE(again.has(table.results[1].layer.id));
}

const std::string kEnd = ": it is not a file of plait bench grid; name another, or remove it";

TEST(GridTable, names_the_line_that_is_none_of_its_own) {
  EXPECT_EQ(
      refused("tokens,ms\n"),
      "g.jsonl:1: expected \"# plait bench grid, links=...\": it is not a file of plait bench grid; name another, or "
      "remove it");
  EXPECT_EQ(refused("{}\n"), "g.jsonl:1: \"links\" is missing" + kEnd);
  std::string text = grid_lines(two_layers());
  EXPECT_EQ(refused(text.substr(0, text.size() - 3)), "g.jsonl:4: expected one JSON object" + kEnd);
  text.replace(text.find(" 12.5,"), 6, " \"fast\",");
  EXPECT_EQ(refused(text), "g.jsonl:2: \"ms\" must be a number" + kEnd);
  const GridTable table = two_layers();
  const std::string lines = grid_lines(table), first = lines.substr(lines.find('\n') + 1);
  EXPECT_EQ(refused(lines + first.substr(0, first.find('\n') + 1)),
            "g.jsonl:5: expected the lines of layer " + table.results[0].layer.id + " together" + kEnd);
}

TEST(GridTable, goes_on_only_where_nothing_has_changed) {
  GridHeader now = two_layers().header;
  EXPECT_NO_THROW(expect_same_grid(two_layers().header, now, "g.jsonl"));
  now.machine = "ef";
  try {
    expect_same_grid(two_layers().header, now, "g.jsonl");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "g.jsonl holds another run: its machine is \"cd\", now it is \"ef\"; name another file to begin anew");
  }
}

}  // namespace
}  // namespace plait
