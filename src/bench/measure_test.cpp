// Recorded steps: the executor keeps the rule by which the simulator plays.
#include "bench/measure.h"

#include <gtest/gtest.h>

#include "bench/overlap.h"
#include "train/loop.h"

namespace plait {
namespace {

Config small(const std::vector<std::string>& more) {
  std::vector<std::string> all = {"model.hidden_size=16",
                                  "model.num_hidden_layers=2",
                                  "moe.num_experts=4",
                                  "train.batch_size=8",
                                  "train.seq_length=8",
                                  "moe.moe_intermediate_size=16",
                                  "train.micro_batch_size=2",
                                  "mesh.tp=2",
                                  "mesh.ep=2",
                                  "mesh.node=2"};
  all.insert(all.end(), more.begin(), more.end());
  return ready_config("", all);
}

TEST(RecordSteps, has_a_span_for_every_step_of_every_rank) {
  for (const char* lanes : {"schedule.lanes=false", "schedule.lanes=true"}) {
    const RecordedSteps recorded = record_steps(small({lanes}), {.warm_up = 1, .steps = 2});
    ASSERT_EQ(recorded.steps.size(), 2);
    const std::vector<int> order = issue_order(recorded.schedule);
    for (const Timeline& timeline : recorded.steps) {
      ASSERT_EQ(timeline.spans.size(), 4 * order.size());
      for (size_t i = 0; i < timeline.spans.size(); ++i) {
        const TimeSpan& span = timeline.spans[i];
        EXPECT_EQ(span.place, static_cast<int>(i / 4));
        EXPECT_EQ(span.rank, static_cast<int>(i % 4));
        EXPECT_EQ(span.step, order[span.place]);
        EXPECT_LE(span.start, span.met);
        EXPECT_LE(span.met, span.end) << "a message ended before the last of its group came: step " << span.step;
      }
    }
  }
}

// A step never begins before the rule lets it, so that the same spans played again cannot take longer.
TEST(RecordSteps, keeps_the_order_of_lanes_and_what_each_step_must_follow) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"schedule.order=overlap", "schedule.chunks=2", "schedule.moe=s2"}}) {
    std::vector<std::string> all = {"schedule.lanes=true"};
    all.insert(all.end(), more.begin(), more.end());
    const RecordedSteps recorded = record_steps(small(all));
    for (const Timeline& timeline : recorded.steps) {
      const Timeline again = simulate(recorded.schedule, measured(recorded.schedule, timeline));
      for (size_t i = 0; i < timeline.spans.size(); ++i)
        ASSERT_LE(again.spans[i].start, timeline.spans[i].start + 1e-9) << timeline.spans[i].step;
      EXPECT_GT(again.makespan, 0);
    }
  }
}

TEST(Overlap, is_what_a_step_is_shorter_than_its_parts) {
  const RecordedSteps recorded = record_steps(small({"schedule.lanes=true"}), {.warm_up = 0, .steps = 1});
  Timeline timeline = recorded.steps[0];
  timeline.makespan = 7;
  for (TimeSpan& span : timeline.spans) span.start = span.met = span.end = 0;
  // On every rank three seconds of computing, and a message that waits one second and travels for two.
  int computes = -1, travels = -1;
  for (const TimeSpan& span : timeline.spans) (span.lane == kComputeLane ? computes : travels) = span.place;
  for (TimeSpan& span : timeline.spans) {
    if (span.place == computes) span.end = 3;
    if (span.place == travels) span.met = 1, span.end = 3;
  }
  const Overlap o = overlap(recorded.schedule, timeline);
  EXPECT_DOUBLE_EQ(o.compute, 3);
  EXPECT_DOUBLE_EQ(o.wire, 2);
  EXPECT_DOUBLE_EQ(o.hideable(), 2);
  EXPECT_DOUBLE_EQ(o.hidden(), -2);
}

TEST(Delay, is_that_of_the_slowest_level_a_group_spans) {
  const auto delay = delay_of({.intra = 100, .inter = 10, .ranks_per_node = 2});
  EXPECT_DOUBLE_EQ(delay({0, 1}, 50).count(), 0.5);
  EXPECT_DOUBLE_EQ(delay({2, 3}, 50).count(), 0.5);
  EXPECT_DOUBLE_EQ(delay({1, 2}, 50).count(), 5);
  EXPECT_DOUBLE_EQ(delay({0, 2}, 50).count(), 5);
}

}  // namespace
}  // namespace plait
