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
  EXPECT_EQ(t.spans[2], (TimeSpan{.lane = kComputeLane, .step = 2, .place = 2, .start = 3, .end = 7}));
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
  h.timing.lanes.push_back(2);  // a lane of its own, beside which the next repeat begins
  h.b.schedule().repeat = Repeat{.first = 0, .last = 2, .times = 3};
  h.seconds = {1, 4, 1, 4, 1, 4};
  const Timeline t = h.run();
  EXPECT_EQ(issue_order(h.b.schedule()), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_DOUBLE_EQ(t.makespan, 13);
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

}  // namespace
}  // namespace plait
