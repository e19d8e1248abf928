// The drawings by their structure: what is drawn where, and what is not.
#include "draw/timeline.h"

#include <gtest/gtest.h>

#include <regex>

#include "schedule/builder.h"

namespace plait {
namespace {

int count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

Machine machine() { return {.name = "simple", .levels = {{"node", 2}, {"network", 1 << 20}}}; }

// A product, a message and two ops on a pair of ranks, with these seconds.
Drawing drawing(const std::vector<double>& seconds, int rows) {
  Builder b{Mesh({.ranks = 2, .tp = 2, .esp = 2, .ep = 1})};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8, stack_of(tp)}, {"D", 4}}),
                w = b.leaf(LeafKind::data, "w", {{"D", 4}, {"F", 4}});
  b.scope("l0.");
  const ValueId y = b.add(Einsum{.out = {"T", "F"}}, {x, w}, "<up>");
  const ValueId z = b.gather(y, tp, "T");
  b.add(Scale{.factor = 2}, {y});
  b.add(Scale{.factor = 3}, {z});
  const Schedule s = b.take();
  const Types types = check(s);
  const std::vector<StepCost> costs = step_costs(s, types, machine());
  Timing timing = predicted(s, costs, rows);
  timing.seconds.assign(rows, seconds);
  return {
      .title = "a & b", .timeline = simulate(s, timing), .notes = step_notes(s, types, costs), .lanes = lane_names()};
}

TEST(StepNotes, say_kind_part_types_and_amounts) {
  const std::vector<StepNote> notes = drawing({1, 1, 1, 1}, 1).notes;
  EXPECT_EQ(notes[0].kind, StepKind::product);
  EXPECT_EQ(notes[1].kind, StepKind::all_gather);
  EXPECT_EQ(notes[2].kind, StepKind::other);
  EXPECT_EQ(notes[1].title, "gather");
  EXPECT_EQ(notes[0].part, "l0");
  ASSERT_EQ(notes[0].lines.size(), 2);
  EXPECT_EQ(notes[0].lines[0], "%l0.<up> : side [T=8/tp.esp, F=4]");
  EXPECT_EQ(notes[0].lines[1].substr(0, 9), "128 flop,");
  EXPECT_EQ(notes[3].needs, (std::vector<int>{1}));
}

TEST(ChromeTrace, has_an_event_for_each_span_in_microseconds) {
  const std::string json = chrome_trace(drawing({1, 2, 3, 4}, 2));
  EXPECT_EQ(count(json, R"("ph":"X")"), 2 * 4);
  EXPECT_EQ(count(json, R"("ph":"X","pid":1,"tid":1,"ts":1000000.000,"dur":2000000.000,"name":"gather")"), 1);
  EXPECT_EQ(count(json, R"("name":"thread_name","pid":0,"tid":1,"args":\{"name":"node"\})"), 1);
}

TEST(ChromeTrace, says_how_long_a_message_waited_for_its_group) {
  Drawing d = drawing({1, 2, 3, 4}, 2);
  for (TimeSpan& span : d.timeline.spans)
    if (span.rank == 1 && span.step == 1) span.met += 0.5;
  EXPECT_EQ(count(chrome_trace(d), R"("waited_us":500000.000)"), 1);
  EXPECT_EQ(count(timeline_svg(d), "class=\"wait\""), 1);
  EXPECT_EQ(count(timeline_html(d), R"("boxes":\[\[1,1,3,1.5\]\])"), 1);
}

TEST(ChromeTrace, leaves_out_what_takes_no_time) {
  EXPECT_EQ(count(chrome_trace(drawing({1, 0, 3, 4}, 1)), R"("ph":"X")"), 3);
}

TEST(TimelineSvg, draws_a_row_for_each_rank_and_lane_in_use) {
  const std::string svg = timeline_svg(drawing({1, 2, 3, 4}, 2));
  EXPECT_EQ(count(svg, "class=\"lane\""), 4) << "compute and node on two ranks; nothing crosses the network";
  EXPECT_EQ(count(svg, "rank 1 node"), 1);
  EXPECT_EQ(count(svg, "<title>einsum, 1.00 s"), 2);
  EXPECT_EQ(count(svg, "network"), 0);
}

TEST(TimelineSvg, places_boxes_in_proportion) {
  const std::string svg = timeline_svg(drawing({1, 2, 3, 4}, 1));  // [0,1] and [1,4] and [4,8], beside [1,3]
  std::smatch box;
  ASSERT_TRUE(std::regex_search(svg, box, std::regex("x=\"([0-9.]+)\"[^>]* width=\"([0-9.]+)\"[^>]*><title>gather")));
  const double left = std::stod(box[1]), width = std::stod(box[2]);
  ASSERT_TRUE(std::regex_search(svg, box, std::regex("x=\"([0-9.]+)\"[^>]*><title>einsum")));
  EXPECT_NEAR(width, 2 * (left - std::stod(box[1])), 1.5);
}

TEST(TimelineSvg, escapes_what_markup_would_read) {
  const std::string svg = timeline_svg(drawing({1, 2, 3, 4}, 1));
  EXPECT_EQ(count(svg, "a &amp; b"), 1);
  EXPECT_EQ(count(svg, "%l0.&lt;up&gt;"), 1);
  EXPECT_EQ(count(svg, "<up>"), 0);
}

TEST(TimelineSvg, draws_boxes_narrower_than_a_pixel_as_one) {
  Drawing d = drawing({1, 2, 3, 4}, 1);
  d.timeline.spans.clear();
  for (int i = 0; i < 100000; ++i)
    d.timeline.spans.push_back({.step = 2, .place = i, .start = i * 1e-3, .end = (i + 1) * 1e-3});
  d.timeline.makespan = 100;
  const std::string svg = timeline_svg(d);
  EXPECT_LT(count(svg, "<title>"), 1300);
  EXPECT_GT(count(svg, "<title>"), 400);
}

TEST(TimelineHtml, carries_every_span_and_cannot_be_ended_by_a_name) {
  Drawing d = drawing({1, 2, 3, 4}, 2);
  d.notes[0].name = "</script>";
  const std::string html = timeline_html(d);
  EXPECT_EQ(count(html, "</script>"), 1);
  EXPECT_EQ(count(html, R"("boxes":\[\[0,0,1\],\[2,1,4\],\[3,4,8\]\])"), 2);
  EXPECT_EQ(count(html, R"("boxes":\[\[1,1,3\]\])"), 2);
  EXPECT_EQ(count(html, "https?://"), 0) << "one self-contained file";
}

TEST(Drawings, of_nothing_are_still_whole) {
  const Drawing empty{.title = "nothing", .lanes = lane_names()};
  EXPECT_TRUE(timeline_svg(empty).ends_with("</svg>\n"));
  EXPECT_TRUE(timeline_html(empty).ends_with("</html>\n"));
  EXPECT_EQ(count(chrome_trace(empty), R"("traceEvents":\[)"), 1);
}

TEST(Page, draws_the_memory_of_each_step_where_it_is_known) {
  Drawing d = drawing({1, 2, 1, 1}, 2);
  EXPECT_NE(timeline_html(d).find("\"memory\":null"), std::string::npos);
  d.memory.resize(4);
  for (size_t i = 0; i < 4; ++i) d.memory[i].at({MemoryClass::kept, true}) = 100 * static_cast<int64_t>(i + 1);
  const std::string page = timeline_html(d);
  EXPECT_NE(page.find("\"most\":400"), std::string::npos);
  EXPECT_NE(page.find("[0,1,[0,0,0,0,100,0,0],100]"), std::string::npos);
  EXPECT_EQ(count(page, R"(\[0,0,0,0,\d00,0,0\])"), 4) << "of one rank";
}

}  // namespace
}  // namespace plait
