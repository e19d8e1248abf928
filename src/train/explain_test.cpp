// Seconds of steps, told and measured.
#include "train/explain.h"

#include <gtest/gtest.h>

#include <mutex>

#include "schedule/builder.h"
#include "wire/ranks.h"

namespace plait {
namespace {

// A scale and a gather on two ranks, twice: two micro-batches.
Schedule list() {
  Builder b{Mesh({.ranks = 2, .tp = 2, .esp = 2, .ep = 1})};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8, stack_of(tp)}});
  b.gather(b.add(Scale{.factor = 2}, {x}), tp, "T");
  Schedule s = b.take();
  s.repeat = Repeat{0, 2, 2};
  return s;
}

double of(const Explanation& e, const std::string& kind, double ExplainedKind::*what) {
  for (const ExplainedKind& k : e.kinds)
    if (k.kind == kind) return k.*what;
  return -1;
}

TEST(Explanation, sums_what_repeats_and_tells_the_costs) {
  const Schedule s = list();
  const Machine m = default_machine(2);
  const auto costs = step_costs(s, check(s), m);
  const Explanation e = explain(s, m, {});
  EXPECT_DOUBLE_EQ(of(e, "scale", &ExplainedKind::predicted), 2 * costs[0].seconds);
  EXPECT_DOUBLE_EQ(of(e, "gather", &ExplainedKind::predicted), 2 * costs[1].seconds);
  EXPECT_NEAR(e.predicted, 2 * (costs[0].seconds + costs[1].seconds), 1e-12);
  EXPECT_EQ(e.measured, 0);
}

TEST(Explanation, counts_a_message_from_when_the_last_rank_has_come) {
  const Schedule s = list();
  std::mutex mutex;
  std::vector<Explanation> all;
  wire::run_ranks({.ranks = 2, .timeout = wire::Seconds(10)}, [&](int rank, wire::World& world) {
    const std::vector<double> mine = rank == 0 ? std::vector<double>{1, 5} : std::vector<double>{3, 2};
    const Explanation e = explain(explain(s, default_machine(2), {}), s, mine, *world.group(rank, {0, 1}));
    const std::lock_guard lock(mutex);
    all.push_back(e);
  });
  for (const Explanation& e : all) {
    EXPECT_DOUBLE_EQ(of(e, "scale", &ExplainedKind::measured), 2) << "the mean of both";
    EXPECT_DOUBLE_EQ(of(e, "gather", &ExplainedKind::measured), 2) << "rank 1 came last";
    EXPECT_DOUBLE_EQ(e.waiting, 1.5) << "rank 0 waited 3 seconds, rank 1 did not";
  }
}

TEST(StepWatch, takes_the_median_of_runs_and_adds_repeats) {
  StepWatch watch(list());
  for (int64_t ms : {4, 1, 9}) {
    watch.begin();
    for (int i = 0; i < 2; ++i) {
      Span span{.step = 1};
      span.end = span.begin + std::chrono::milliseconds(ms);
      watch.note(span);
    }
    watch.end();
  }
  EXPECT_EQ(watch.runs(), 3);
  EXPECT_NEAR(watch.medians()[1], 8e-3, 1e-12);
  EXPECT_EQ(watch.medians()[0], 0);
}

}  // namespace
}  // namespace plait
