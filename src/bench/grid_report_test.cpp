#include "bench/grid_report.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

// Three layers of two pairs; what is expected of them below was computed by hand.
constexpr std::string_view kHead =
    "# plait bench grid,links=200mbit,ranks=4,node=2,threads=1,rounds=5,grid=a,machine=b,peer=c\n"
    "layer,ranks,tp,esp,ep,sequences,positions,width,hidden,experts,top_k,factor,variant,schedule,ms,low,high,"
    "predicted_ms,differs,note\n";
constexpr std::string_view kRows =
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,ted,ted,40,39,41,44,0,\n"
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,s1 fused,s1 fused,20,19,21,15,0,\n"
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,s2 fused,s2 fused,25,24,26,,0,\n"
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,sharded,sharded,16,15,17,16,0,\n"
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,parm,parm,80,79,81,,0,\n"
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,auto,sharded,16,15,17,16,0,\n"
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,auto 2,\"s2, lanes\",17,16,18,,0,\n"
    "t2e2-01,4,2,2,2,1,64,128,256,4,1,0,deepspeed,another program,8,8,8,,,\n"
    "t2e2-02,4,2,2,2,1,64,256,512,4,2,0,ted,ted,30,29,31,,0,\n"
    "t2e2-02,4,2,2,2,1,64,256,512,4,2,0,s1 fused,s1 fused,30,29,31,,0,\n"
    "t2e2-02,4,2,2,2,1,64,256,512,4,2,0,s2 fused,s2 fused,18,17.5,18.5,,0,\n"
    "t2e2-02,4,2,2,2,1,64,256,512,4,2,0,sharded,sharded,21,20,22,,0,\n"
    "t2e2-02,4,2,2,2,1,64,256,512,4,2,0,parm,parm,90,89,91,,0,\n"
    "t2e2-02,4,2,2,2,1,64,256,512,4,2,0,auto,\"sharded, chunks 2/2\",20,19.5,21,25,0,\n"
    "t1e2-01,4,1,2,2,1,64,128,256,4,1,0,s1 fused,s1 fused,20,19,21,,0,\n"
    "t1e2-01,4,1,2,2,1,64,128,256,4,1,0,s2 fused,s2 fused,,,,,,no room\n"
    "t1e2-01,4,1,2,2,1,64,128,256,4,1,0,sharded,sharded,10,9.9,10.05,,0,\n"
    "t1e2-01,4,1,2,2,1,64,128,256,4,1,0,parm,parm,20,19,21,,0,\n"
    "t1e2-01,4,1,2,2,1,64,128,256,4,1,0,auto,\"sharded, lanes\",10.2,10.1,10.3,,0,\n";

GridTable table(std::string_view more = "") {
  return parse_grid(std::string(kHead) + std::string(kRows) + std::string(more), "by hand");
}

const Ratios& speedup(const GridReport& report, std::string_view over, std::string_view group,
                      std::string_view variant = "auto") {
  const auto found = std::ranges::find(report.speedups, over, &Speedups::over);
  const auto g = std::ranges::find(report.groups, group, &GridGroup::name) - report.groups.begin();
  const auto v = std::ranges::find(report.variants, variant) - report.variants.begin();
  return found->by.at(static_cast<size_t>(g)).at(static_cast<size_t>(v));
}

TEST(GridReport, means_are_over_pairs_of_equal_weight) {
  const GridReport report = grid_report(table());
  const Ratios& pair = speedup(report, "parm", "tp 2, esp 2");
  EXPECT_EQ(pair.count, 2);
  EXPECT_NEAR(pair.geometric, std::sqrt(5 * 4.5), 1e-12);
  EXPECT_NEAR(pair.arithmetic, 4.75, 1e-12);
  EXPECT_EQ(pair.least, 4.5);
  EXPECT_EQ(pair.most, 5);
  const Ratios& all = speedup(report, "parm", "all");
  EXPECT_EQ(all.count, 3);
  EXPECT_NEAR(all.geometric, std::sqrt(std::sqrt(5 * 4.5) * 20 / 10.2), 1e-12);
  EXPECT_NEAR(all.arithmetic, (4.75 + 20 / 10.2) / 2, 1e-12);
  EXPECT_NEAR(speedup(report, "parm", "tp or esp 1").geometric, 20 / 10.2, 1e-12);
  EXPECT_NEAR(speedup(report, "parm", "tp and esp 2 or more").geometric, std::sqrt(5 * 4.5), 1e-12);
}

TEST(GridReport, compares_with_ted_and_with_the_faster_of_the_fused_s1_and_s2) {
  const GridReport report = grid_report(table());
  EXPECT_EQ(speedup(report, "ted", "tp 1, esp 2").count, 0);
  EXPECT_NEAR(speedup(report, "ted", "all", "sharded").geometric, std::sqrt(40.0 / 16 * 30 / 21), 1e-12);
  EXPECT_NEAR(speedup(report, kParmChoice, "tp 2, esp 2").geometric, std::sqrt(20.0 / 16 * 18 / 20), 1e-12);
  EXPECT_NEAR(speedup(report, kParmChoice, "tp 1, esp 2").geometric, 20 / 10.2, 1e-12);
  EXPECT_NEAR(speedup(report, "deepspeed", "all").geometric, 0.5, 1e-12);
  EXPECT_EQ(report.variants,
            (std::vector<std::string>{"ted", "parm", "s1 fused", "s2 fused", "sharded", "auto", "deepspeed"}));
}

TEST(GridReport, tells_how_often_auto_found_the_best) {
  const GridReport report = grid_report(table());
  const Choosing& all = report.choosing.at("auto").back();
  EXPECT_EQ(all.layers, 3);
  EXPECT_EQ(all.best, 1);
  EXPECT_EQ(all.near, 2);  // 2% behind
  EXPECT_EQ(all.tied, 1);  // the quartiles of the third lie apart
  EXPECT_EQ(all.found, 2);
  EXPECT_NEAR(all.mean_regret, (0 + 20.0 / 18 - 1 + 0.02) / 3, 1e-12);
  EXPECT_NEAR(all.worst_regret, 20.0 / 18 - 1, 1e-12);
  EXPECT_EQ(all.worst, "t2e2-02");
  EXPECT_EQ(report.slower_than_parm, 0);
  const GridReport slow =
      grid_report(table("t1e2-02,4,1,2,2,1,64,128,256,4,1,0,parm,parm,10,9,10.5,,0,\n"
                        "t1e2-02,4,1,2,2,1,64,128,256,4,1,0,auto,s1,11,10.6,12,,0,\n"));
  EXPECT_EQ(slow.slower_than_parm, 1);
}

TEST(GridReport, counts_the_error_of_each_measurement_once) {
  const GridReport report = grid_report(table());
  const Errors &all = report.errors.back(), &chosen = report.auto_errors.back();
  EXPECT_EQ(all.count, 4);  // 0, 0.1, 0.25, 0.25
  EXPECT_NEAR(all.median, 0.175, 1e-12);
  EXPECT_NEAR(all.ninth, 0.25, 1e-12);
  EXPECT_EQ(chosen.count, 2);
  EXPECT_NEAR(chosen.median, 0.125, 1e-12);
  EXPECT_NEAR(chosen.ninth, 0.225, 1e-12);
  EXPECT_EQ(report.points.size(), 4u);
  EXPECT_EQ(report.points[0].variant, "auto");
}

TEST(GridReport, other_programs_are_not_among_the_ways_to_choose_from) {
  const GridTable all = table();
  EXPECT_EQ(fastest(all.results[0]).variant, "sharded");
  EXPECT_EQ(fastest(all.results[1]).variant, "s2 fused");
}

TEST(GridReport, bins_begin_at_nothing) {
  const std::vector<double> values = {0.2, 0.5, 0.74, 1.6};
  EXPECT_EQ(histogram(values, 0.5), (std::vector<int64_t>{1, 2, 0, 1}));
}

TEST(GridReport, prints_its_figures) {
  const std::string text = grid_text(grid_report(table()));
  for (const char* words : {"3 layers, 4 ranks with 1 thread each, 2 a node, links 200mbit, 5 rounds",
                            "parm           all                        3      3.05x       3.36x  1.96x  5.00x",
                            "slower than parm by more than the spread: 0 layers"})
    EXPECT_NE(text.find(words), std::string::npos) << words << '\n' << text;
}

TEST(GridReport, a_page_without_a_choice_or_predictions_leaves_both_out) {
  GridTable plain = table();
  for (GridResult& result : plain.results) {
    std::erase_if(result.rows, [](const GridRow& row) { return row.variant.starts_with("auto"); });
    for (GridRow& row : result.rows) row.predicted_ms = NAN;
  }
  const std::string page = grid_html(grid_report(plain), plain);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("Times faster than ted"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  const std::string whole = grid_html(grid_report(table()), table());
  for (const char* id : {"<svg id=\"histogram\"", "<svg id=\"scatter\"", "of the layers: auto found the best"})
    EXPECT_NE(whole.find(id), std::string::npos) << id;
  EXPECT_EQ(whole.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace plait
