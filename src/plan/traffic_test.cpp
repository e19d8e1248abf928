// What a list sends, and what its time consists of.
#include "plan/traffic.h"

#include <gtest/gtest.h>

#include "plan/critical_path.h"
#include "schedule/builder.h"

namespace plait {
namespace {

// Two nodes of two ranks: tp within a node, ep between them.
const Mesh kFour({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});

// A gather within a node, an op, a leave between nodes, an exchange over both; twice.
Schedule list() {
  Builder b{kFour};
  const Atoms tp = b.mesh().axis(Axis::tp), ep = b.mesh().axis(Axis::ep);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8, stack_of(tp)}}),
                y = b.leaf(LeafKind::data, "y", {{"T", 16, stack_of(ep)}});
  b.gather(x, tp, "T");
  b.add(Scale{.factor = 2}, {x});
  b.gather(y, ep, "T");
  Schedule s = b.take();
  s.repeat = Repeat{0, 3, 2};
  return s;
}

TEST(Traffic, counts_messages_and_bytes_by_collective_and_level) {
  const Schedule s = list();
  const std::vector<StepCost> costs = step_costs(s, check(s), default_machine(2));
  const std::vector<Traffic> all = traffic(s, costs);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].collective, Collective::all_gather);
  EXPECT_EQ(all[0].level, 0);
  EXPECT_EQ(all[0].messages, 2);
  EXPECT_EQ(all[0].bytes, 2 * 4 * 4) << "half of eight floats, twice";
  EXPECT_EQ(all[1].level, 1);
  EXPECT_EQ(all[1].messages, 2);
  EXPECT_EQ(all[1].bytes, 2 * 8 * 4);
  EXPECT_DOUBLE_EQ(all[1].seconds, 2 * costs[2].seconds);
}

double seconds(const std::vector<CriticalStep>& path) {
  double sum = 0;
  for (const CriticalStep& c : path) sum += c.idle + c.end - c.start;
  return sum;
}

std::vector<int> steps(const std::vector<CriticalStep>& path) {
  std::vector<int> all;
  for (const CriticalStep& c : path) all.push_back(c.step);
  return all;
}

// x: gathered on a lane (2 s) beside a slow op (5 s), read by a last op (1 s) which needs both.
struct Beside {
  Schedule schedule;
  Timing timing;
};
Beside beside(double op, double message) {
  Builder b{kFour};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8, stack_of(tp)}}), z = b.leaf(LeafKind::data, "z", {{"T", 8}});
  const ValueId full = b.gather(x, tp, "T");
  const ValueId other = b.add(Scale{.factor = 2}, {z});
  b.add(Add{}, {b.add(Scale{.factor = 1}, {other}), other});
  b.add(Scale{.factor = 3}, {full});
  return {b.take(), {.lanes = {1, 0, 0, 0, 0}, .seconds = {{message, op, 1, 1, 1}}}};
}

TEST(CriticalPath, goes_through_what_took_longest) {
  const Beside slow_op = beside(5, 2);
  const Timeline computing = simulate(slow_op.schedule, slow_op.timing);
  EXPECT_EQ(steps(critical_path(slow_op.schedule, computing)), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_DOUBLE_EQ(seconds(critical_path(slow_op.schedule, computing)), 8);
  const Beside slow_message = beside(1, 9);
  const Timeline sending = simulate(slow_message.schedule, slow_message.timing);
  EXPECT_EQ(steps(critical_path(slow_message.schedule, sending)), (std::vector<int>{0, 4}));
  EXPECT_DOUBLE_EQ(seconds(critical_path(slow_message.schedule, sending)), 10);
}

TEST(CriticalPath, counts_handing_over_as_idle) {
  Beside b = beside(1, 9);
  b.timing.after = {0.5, 0, 0, 0, 0};
  const std::vector<CriticalStep> path = critical_path(b.schedule, simulate(b.schedule, b.timing));
  EXPECT_DOUBLE_EQ(path.back().idle, 0.5);
  EXPECT_DOUBLE_EQ(seconds(path), 10.5);
}

TEST(CriticalPath, goes_over_to_the_rank_that_a_group_waited_for) {
  Builder b{kFour};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8, stack_of(tp)}});
  b.gather(b.add(Scale{.factor = 2}, {x}), tp, "T");
  const Schedule s = b.take();
  const Timing timing{.lanes = {0, 0}, .seconds = {{1, 1}, {4, 1}, {2, 1}, {1, 1}}};  // groups 0, 1 and 2, 3
  const std::vector<CriticalStep> path = critical_path(s, simulate(s, timing));
  ASSERT_EQ(path.size(), 2u);
  EXPECT_EQ(path[0].rank, 1) << "the slow one";
  EXPECT_DOUBLE_EQ(path[0].end, 4);
  EXPECT_DOUBLE_EQ(path[1].start, 4) << "waiting is no part of the message";
  EXPECT_DOUBLE_EQ(seconds(path), 5);
}

TEST(CriticalPath, runs_through_every_turn_of_a_repeated_section) {
  const Schedule s = list();
  const Timing timing = predicted(s, step_costs(s, check(s), default_machine(2)));
  Timing alone = timing;
  std::ranges::fill(alone.lanes, kComputeLane);
  EXPECT_EQ(critical_path(s, simulate(s, alone)).size(), 6u) << "all, one after another";
  const Timeline with_lanes = simulate(s, timing);
  EXPECT_NEAR(seconds(critical_path(s, with_lanes)), with_lanes.makespan, 1e-12);
  EXPECT_EQ(critical_path(s, with_lanes).size(), 2u) << "the message between nodes, twice";
  EXPECT_TRUE(critical_path(s, {}).empty());
}

}  // namespace
}  // namespace plait
