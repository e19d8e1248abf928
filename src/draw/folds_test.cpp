#include "draw/folds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "draw/timeline_rows.h"

namespace plait {
namespace {

int count(const std::string& text, const std::string& words) {
  int n = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
  return n;
}

// Steps of these parts, each a second long; the work of a step is what stands behind the colon.
Drawing of_parts(const std::vector<std::string>& parts) {
  Drawing d{.title = "parts", .lanes = lane_names()};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i].substr(0, parts[i].find(':')), work = parts[i].substr(part.size());
    d.notes.push_back({.name = part + ".x", .title = "einsum", .part = part, .alike = "einsum" + work});
    const double t = static_cast<double>(i);
    d.timeline.spans.push_back(
        {.step = static_cast<int>(i), .place = static_cast<int>(i), .start = t, .met = t, .end = t + 1});
  }
  d.timeline.makespan = static_cast<double>(parts.size());
  return d;
}

std::vector<std::string> names(const std::vector<Fold>& folds) {
  std::vector<std::string> all;
  for (const Fold& fold : folds) all.push_back(fold.what);
  return all;
}

TEST(Folds, leave_out_equal_layers_that_follow_one_another) {
  const Drawing d = of_parts({"embed", "l0:a", "l1:b", "l2:b", "l3:b", "l4:b", "l5:c", "head"});
  const std::vector<Fold> all = folds(d);
  ASSERT_EQ(names(all), (std::vector<std::string>{"l1-l4: 4 equal layers"}));
  EXPECT_EQ(all[0].start, 2);
  EXPECT_EQ(all[0].shown, 3);
  EXPECT_EQ(all[0].end, 6);
  EXPECT_EQ(drawn(all[0]), "l1-l4: 4 equal layers, 1 drawn, 1.00 s each");
  EXPECT_EQ(told(all[0]), "l1-l4: 4 equal layers, 1.00 s each");
}

TEST(Folds, are_none_of_three_layers_nor_of_layers_that_differ) {
  EXPECT_TRUE(folds(of_parts({"l0:a", "l1:a", "l2:a", "head"})).empty());
  EXPECT_TRUE(folds(of_parts({"l0:a", "l1:b", "l2:c", "l3:d", "l4:e", "head"})).empty());
  EXPECT_TRUE(folds(Drawing{.title = "nothing"}).empty());
}

TEST(Folds, take_layers_by_two_and_the_backward_pass_in_its_own_order) {
  std::vector<std::string> parts;
  for (int l = 0; l < 8; ++l) parts.push_back(fmt::format("l{}:{}", l, l % 2 ? "moe" : "dense"));
  for (int l = 8; l-- > 0;) parts.push_back(fmt::format("l{} backward:{}", l, l % 2 ? "moe" : "dense"));
  const std::vector<Fold> all = folds(of_parts(parts));
  EXPECT_EQ(names(all), (std::vector<std::string>{"l0-l7: 4 equal groups of 2 layers",
                                                  "l7-l0 backward: 4 equal groups of 2 layers"}));
  EXPECT_EQ(drawn(all[0]), "l0-l7: 4 equal groups of 2 layers, 1 drawn, 2.00 s each");
}

TEST(Folds, count_what_is_made_again_to_the_layer_that_it_is_made_for) {
  std::vector<std::string> parts;
  for (int l = 5; l-- > 0;)
    for (const char* then : {" backward:a", " again:b", " backward:c"}) parts.push_back(fmt::format("l{}{}", l, then));
  EXPECT_EQ(names(folds(of_parts(parts))), (std::vector<std::string>{"l4-l0 backward: 5 equal layers"}));
}

TEST(Folds, take_micro_batches_and_the_layers_of_the_one_that_is_drawn) {
  Drawing d = of_parts({"start", "embed", "l0", "l1", "l2", "l3", "head"});
  d.repeat = Repeat{1, 7, 5};
  for (int turn = 1; turn < 5; ++turn)
    for (int step = 1; step < 7; ++step) {
      TimeSpan span = d.timeline.spans[static_cast<size_t>(step)];
      span.place += 6 * turn, span.start += 6 * turn, span.met += 6 * turn, span.end += 6 * turn;
      d.timeline.spans.push_back(span);
    }
  d.notes.push_back({.title = "adamw", .part = "head", .alike = "adamw"});
  d.timeline.spans.push_back({.step = 7, .place = 31, .start = 31, .met = 31, .end = 32});
  d.timeline.makespan = 32;
  const std::vector<Fold> all = folds(d);
  EXPECT_EQ(names(all), (std::vector<std::string>{"5 equal micro-batches", "l0-l3: 4 equal layers"}));
  EXPECT_EQ(all[0].shown, 7);
  EXPECT_EQ(all[0].end, 31);
  EXPECT_EQ(all[1].end, 6);
  EXPECT_EQ(depth(all), 2);
}

TEST(Folds, say_how_long_the_shortest_and_the_longest_of_a_measured_step_took) {
  Drawing d = of_parts({"l0", "l1", "l2", "l3", "head"});
  for (size_t i = 3; i < 5; ++i) d.timeline.spans[i].start += 0.5, d.timeline.spans[i].end += 0.5;
  d.timeline.makespan = 5.5;
  EXPECT_EQ(told(folds(d).at(0)), "l0-l3: 4 equal layers, 1.00 s to 1.50 s each");
}

TEST(TimeAxis, cuts_out_what_is_not_drawn) {
  const std::vector<Fold> all = {{.start = 1, .shown = 2, .end = 8}};
  const TimeAxis axis(10, all);
  EXPECT_NEAR(axis.drawn(), 4 + axis.gap(), 1e-12);
  EXPECT_NEAR(axis.end(2) * axis.drawn(), 2, 1e-12);
  EXPECT_NEAR(axis.begin(2) * axis.drawn(), 2 + axis.gap(), 1e-12) << "what starts with the first that is hidden";
  EXPECT_NEAR(axis.end(5) * axis.drawn(), 2, 1e-12);
  EXPECT_NEAR(axis.begin(5) * axis.drawn(), 2 + axis.gap(), 1e-12);
  EXPECT_NEAR(axis.begin(10), 1, 1e-12);
  EXPECT_TRUE(axis.hides(2, 8));
  EXPECT_FALSE(axis.hides(1, 3));
  EXPECT_FALSE(axis.hides(7, 9));
}

TEST(TimelineSvg, underlines_the_critical_path) {
  Drawing d = of_parts({"l0", "l1", "l2", "head"});
  EXPECT_EQ(count(timeline_svg(d), "critical path"), 0);
  d.path = {{.step = 0, .start = 0, .end = 1}, {.step = 1, .start = 1, .end = 2}, {.step = 3, .start = 3, .end = 4}};
  const std::string svg = timeline_svg(d);
  EXPECT_EQ(count(svg, "underlined: the critical path"), 1);
  EXPECT_EQ(count(svg, "class=\"path\""), 1 + 2) << "of the legend, of two steps in a row, of the last one";
  EXPECT_EQ(count(timeline_html(d), "\"path\":[[0,2],[3,4]]"), 1);
}

TEST(TimelineSvg, names_narrow_parts_together) {
  std::vector<std::string> parts = {"embed"};
  for (int l = 9; l-- > 0;)
    for (int i = 0; i < 4; ++i) parts.push_back(fmt::format("l{} backward:{}{}", l + i % 2, l, i));
  Drawing d = of_parts(parts);
  d.timeline.spans[0].end = d.timeline.makespan = 3e3;  // far ahead, in one picture with what is narrow
  for (size_t i = 1; i < d.timeline.spans.size(); ++i) {
    TimeSpan& span = d.timeline.spans[i];
    span.start = span.met = 3e3 + 10 * static_cast<double>(i);
    span.end = span.start + 10;
    d.timeline.makespan = span.end;
  }
  const std::string svg = timeline_svg(d);
  EXPECT_EQ(count(svg, ">l8-l1 backward</text>"), 1) << svg;
  EXPECT_EQ(range_name("l3", "l3"), "l3");
  EXPECT_EQ(short_name("l3 backward"), "l3 b") << "no layer of the forward pass";
  EXPECT_EQ(range_name("head", "l3 backward"), "head-l3 backward");
}

TEST(TimelineSvg, draws_one_of_equal_layers_under_a_bracket_and_two_schedules_in_full) {
  std::vector<std::string> parts = {"embed"};
  for (int l = 0; l < 20; ++l) parts.push_back(fmt::format("l{}", l));
  parts.push_back("head");
  const Drawing d = of_parts(parts);
  const std::string one = timeline_svg(d);
  EXPECT_EQ(count(one, "class=\"box\""), 3);
  EXPECT_EQ(count(one, ">l0-l19: 20 equal layers, 1 drawn, 1.00 s each</text>"), 1);
  EXPECT_EQ(count(one, ">+19</text>"), 1);
  EXPECT_EQ(count(one, "not drawn.</text>"), 1);
  const std::string two = timeline_svg(std::vector<Drawing>{d, d});
  EXPECT_EQ(count(two, "class=\"box\""), 2 * 22);
  EXPECT_EQ(count(two, ">parts: 22.0 s</text>"), 2);
  EXPECT_EQ(count(two, "not drawn"), 0);
}

}  // namespace
}  // namespace plait
