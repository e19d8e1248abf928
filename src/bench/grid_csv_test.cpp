#include <gtest/gtest.h>

#include "base/errors.h"
#include "bench/grid_table.h"

namespace plait {
namespace {

// As 066a3c9 wrote it.
constexpr std::string_view kOld =
    R"(# plait bench grid,"links=200mbit, ""slow""",ranks=4,node=2,threads=1,rounds=5,grid=ab,machine=cd,peer=
layer,ranks,tp,esp,ep,sequences,positions,width,hidden,experts,top_k,factor,variant,schedule,ms,low,high,predicted_ms,differs,note
t1e2-01,4,1,2,2,1,64,128,256,4,1,0,s1,"s1, lanes",12.5,12,13.25,,,
t1e2-01,4,1,2,2,1,64,128,256,4,1,0,parm,,,,,,,"moe.capacity = 1.2, too little"
t1e2-02,4,1,2,2,1,128,128,512,8,2,1.2,s1,s1,7,,,6.5,1e-07,
)";

std::string refused(std::string_view text) {
  try {
    parse_grid(text, "g.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(GridCsv, of_an_older_version_still_loads) {
  const GridTable table = parse_grid(kOld, "g.csv");
  EXPECT_EQ(table.header, (GridHeader{.links = "200mbit, \"slow\"",
                                      .ranks = 4,
                                      .lanes = NodeLanes{2},
                                      .rounds = 5,
                                      .grid = "ab",
                                      .machine = "cd"}));
  ASSERT_EQ(table.results.size(), 2u);
  EXPECT_EQ(table.results[0].find("s1")->schedule, "s1, lanes");
  EXPECT_EQ(table.results[0].find("s1")->high, 13.25);
  EXPECT_EQ(table.results[0].rows[1].note, "moe.capacity = 1.2, too little");
  EXPECT_EQ(table.results[0].find("parm"), nullptr);
  EXPECT_EQ(table.results[1].layer.factor, 1.2);
  EXPECT_EQ(table.results[1].find("s1")->differs, 1e-7);
  EXPECT_EQ(grid_lines(parse_grid(grid_lines(table), "g.jsonl")), grid_lines(table)) << "and goes on as the new form";
}

TEST(GridCsv, names_the_line_that_is_none_of_its_own) {
  std::string text(kOld);
  EXPECT_EQ(refused(text.substr(0, text.size() - 3)).substr(0, 31), "g.csv:5: expected a whole line:");
  text.replace(text.find(",12.5,"), 6, ",fast,");
  EXPECT_EQ(refused(text).substr(0, 40), "g.csv:3: expected a number, not \"fast\": ");
}

}  // namespace
}  // namespace plait
