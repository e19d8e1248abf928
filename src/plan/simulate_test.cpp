// The rule of time, on lists made by hand.
#include "plan/simulate.h"

#include <gtest/gtest.h>

#include <random>

#include "schedule/builder.h"

namespace plait {
namespace {

constexpr int kWire = 1;

// Four ranks in two groups of two: {0, 1} and {2, 3}.
Mesh pairs() { return Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 1}); }

struct Hand {
  Builder b{pairs()};
  Timing timing;
  std::vector<double> seconds = {};

  ValueId leaf(const std::string& name) {
    return b.leaf(LeafKind::data, name, {{"T", 8, stack_of(b.mesh().axis(Axis::tp))}});
  }
  ValueId op(ValueId x, double s) {
    timing.lanes.push_back(kComputeLane);
    seconds.push_back(s);
    return b.add(Scale{.factor = 2}, {x});
  }
  ValueId gather(ValueId x, double s) {
    timing.lanes.push_back(kWire);
    seconds.push_back(s);
    return b.gather(x, b.mesh().axis(Axis::tp), "T");
  }
  Timeline run(int rows = 1) {
    timing.seconds.assign(rows, seconds);
    return simulate(b.schedule(), timing);
  }
};

TEST(Simulate, a_chain_takes_the_sum_of_its_steps) {
  Hand h;
  h.op(h.gather(h.op(h.leaf("x"), 1), 2), 4);
  const Timeline t = h.run();
  EXPECT_DOUBLE_EQ(t.makespan, 7);
  EXPECT_EQ(t.spans[2], (TimeSpan{.lane = kComputeLane, .step = 2, .place = 2, .start = 3, .met = 3, .end = 7}));
}

TEST(Simulate, what_does_not_need_a_move_runs_beside_it) {
  Hand h;
  const ValueId x = h.op(h.leaf("x"), 1), y = h.gather(x, 5);
  h.op(x, 3);
  h.op(y, 2);
  const Timeline t = h.run();
  EXPECT_DOUBLE_EQ(t.spans[2].start, 1);
  EXPECT_DOUBLE_EQ(t.spans[3].start, 6);
  EXPECT_DOUBLE_EQ(t.makespan, 8);
}

TEST(Simulate, a_lane_takes_its_steps_in_the_order_of_the_list) {
  Hand h;
  const ValueId x = h.leaf("x"), z = h.leaf("z");
  h.gather(h.op(x, 3), 1);
  h.gather(z, 1);  // ready at once, but second on its lane
  const Timeline t = h.run();
  EXPECT_DOUBLE_EQ(t.spans[2].start, 4);
}

TEST(Simulate, a_slow_rank_delays_its_own_group_only) {
  Hand h;
  h.op(h.gather(h.op(h.leaf("x"), 1), 2), 1);
  h.run(4);
  h.timing.seconds[1][0] = 6;
  const Timeline t = simulate(h.b.schedule(), h.timing);
  const auto end = [&](int rank) { return t.spans[2 * 4 + rank].end; };
  EXPECT_DOUBLE_EQ(end(0), 9);
  EXPECT_DOUBLE_EQ(end(1), 9);
  EXPECT_DOUBLE_EQ(end(2), 4);
  EXPECT_DOUBLE_EQ(end(3), 4);
  EXPECT_DOUBLE_EQ(t.spans[4].start, 1) << "the move of rank 0 starts before its neighbour comes";
  EXPECT_DOUBLE_EQ(t.spans[4].met, 6);
  EXPECT_DOUBLE_EQ(t.makespan, 9);
}

TEST(Simulate, one_row_of_seconds_stands_for_equal_ranks) {
  Hand h;
  h.op(h.gather(h.op(h.leaf("x"), 1), 2), 4);
  const Timeline one = h.run(1), all = h.run(4);
  EXPECT_EQ(all.spans.size(), 4 * one.spans.size());
  for (size_t i = 0; i < one.spans.size(); ++i) EXPECT_EQ(all.spans[4 * i], one.spans[i]);
}

TEST(Simulate, a_repeated_section_is_issued_as_often_as_it_runs) {
  Hand h;
  const ValueId sum = h.b.leaf(LeafKind::sum, "sum", {{"T", 8, stack_of(h.b.mesh().axis(Axis::tp))}});
  const ValueId x = h.op(h.leaf("x"), 1);
  h.b.add(Accumulate{}, {sum, x});
  h.timing.lanes.push_back(2);  // a lane of its own: the next repeat waits for it all the same
  h.b.schedule().repeat = Repeat{.first = 0, .last = 2, .times = 3};
  h.seconds = {1, 4, 1, 4, 1, 4};
  const Timeline t = h.run();
  EXPECT_EQ(issue_order(h.b.schedule()), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_DOUBLE_EQ(t.makespan, 15);
  EXPECT_DOUBLE_EQ(t.spans[2].start, 5);
}

TEST(Simulate, an_update_in_place_waits_for_who_reads_the_old_value) {
  Hand h;
  const Atoms tp = h.b.mesh().axis(Axis::tp);
  const ValueId w = h.b.leaf(LeafKind::parameter, "w", {{"T", 8, stack_of(tp)}}),
                g = h.b.leaf(LeafKind::data, "g", {{"T", 8, stack_of(tp)}}),
                one = h.b.leaf(LeafKind::scalar, "one", std::vector<Dim>{});
  h.gather(w, 5);
  h.b.add(Sgd{}, {w, g, one, one});
  h.timing.lanes.push_back(kComputeLane);
  h.seconds.push_back(1);
  EXPECT_DOUBLE_EQ(h.run().spans[1].start, 5);
}

TEST(Simulate, measured_seconds_give_back_the_spans_they_were_taken_from) {
  Hand h;
  ValueId x = h.leaf("x");
  for (int i = 0; i < 5; ++i) {
    const ValueId y = h.op(x, 1);
    h.op(h.gather(y, 1), 1);
    x = h.op(y, 1);
  }
  h.run(4);
  std::mt19937 random(7);
  for (auto& row : h.timing.seconds)
    for (double& s : row) s = static_cast<double>(random() % 64) / 8;  // sums of eighths are exact
  const Timeline recorded = simulate(h.b.schedule(), h.timing);
  const Timing again = measured(h.b.schedule(), recorded);
  EXPECT_EQ(again.seconds, h.timing.seconds);
  EXPECT_EQ(simulate(h.b.schedule(), again).spans, recorded.spans);
}

// A run of lists made by hand with lanes, a repeated section, waits in place and unequal ranks.
struct Recorded {
  Hand h;
  Timeline timeline;
};

Recorded recorded_run() {
  Recorded r;
  Hand& h = r.h;
  const Atoms tp = h.b.mesh().axis(Axis::tp);
  const std::vector<Dim> shape = {{"T", 8, stack_of(tp)}};
  const ValueId w = h.b.leaf(LeafKind::parameter, "w", shape), sum = h.b.leaf(LeafKind::sum, "sum", shape),
                one = h.b.leaf(LeafKind::scalar, "one", std::vector<Dim>{});
  const ValueId x = h.op(h.leaf("x"), 1);
  h.gather(w, 2);
  const ValueId z = h.op(x, 1);
  h.gather(z, 3);
  const ValueId total = h.b.add(Accumulate{}, {sum, z});
  h.timing.lanes.push_back(kComputeLane);
  h.b.schedule().repeat = Repeat{.first = 1, .last = 5, .times = 3};
  h.b.add(Sgd{}, {w, total, one, one});
  h.timing.lanes.push_back(kComputeLane);
  std::mt19937 random(11);
  h.timing.seconds.assign(4, {});
  for (auto& row : h.timing.seconds)
    for (size_t i = 0; i < issue_order(h.b.schedule()).size(); ++i)
      row.push_back(static_cast<double>(1 + random() % 64) / 8);
  r.timeline = simulate(h.b.schedule(), h.timing);
  return r;
}

TEST(Simulate, plays_a_run_with_waits_again_exactly) {
  const Recorded r = recorded_run();
  const Timing again = measured(r.h.b.schedule(), r.timeline);
  EXPECT_EQ(again.seconds, r.h.timing.seconds);
  EXPECT_EQ(simulate(r.h.b.schedule(), again).spans, r.timeline.spans);
}

TEST(Simulate, counts_the_time_between_steps_of_a_lane_to_the_later_one) {
  Recorded r = recorded_run();
  // The clock of every rank runs on for an eighth before each step.
  for (TimeSpan& span : r.timeline.spans) {
    const double late = (span.place + 1) / 8.0;
    span.start += late, span.met += late, span.end += late;
  }
  r.timeline.makespan += static_cast<double>(issue_order(r.h.b.schedule()).size()) / 8;
  const Timing again = measured(r.h.b.schedule(), r.timeline);
  EXPECT_DOUBLE_EQ(again.seconds[0][0], r.h.timing.seconds[0][0] + 1 / 8.0);
  const double replayed = simulate(r.h.b.schedule(), again).makespan;
  EXPECT_LE(replayed, r.timeline.makespan);
  EXPECT_GT(replayed, 0.9 * r.timeline.makespan);
}

TEST(FindMeetings, gives_a_message_the_latest_start_of_its_group) {
  Recorded r = recorded_run();
  Timeline bare = r.timeline;
  for (TimeSpan& span : bare.spans) span.met = 0;
  find_meetings(r.h.b.schedule(), bare);
  EXPECT_EQ(bare.spans, r.timeline.spans);
}

}  // namespace
}  // namespace plait
