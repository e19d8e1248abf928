// What is told of a step: sums that add up, and two steps side by side.
#include "tune/step_plan.h"

#include <gtest/gtest.h>

#include "draw/timeline.h"
#include "plan/choose.h"
#include "train/run_shape.h"
#include "tune/explanation.h"

namespace plait {
namespace {

Config config(std::vector<std::string> more) {
  std::vector<std::string> keys = {
      "model.num_hidden_layers=2", "moe.num_experts=4", "train.seq_length=16", "mesh.tp=2", "mesh.ep=2", "mesh.node=2"};
  keys.insert(keys.end(), more.begin(), more.end());
  return ready_config("", keys);
}

double value(const std::vector<Figure>& figures, const std::string& what, const std::string& kind) {
  const auto there = std::ranges::find_if(figures, [&](const Figure& f) { return f.what == what && f.kind == kind; });
  return there == figures.end() ? -1 : there->value;
}

double sum(const std::vector<Figure>& figures, const std::string& what) {
  double all = 0;
  for (const Figure& f : figures)
    if (f.what == what) all += f.value;
  return all;
}

TEST(StepPlan, takes_the_time_that_choices_are_told_by) {
  for (const char* lanes : {"schedule.lanes=false", "schedule.lanes=true"}) {
    const StepPlan plan = plan_step({config({lanes})});
    EXPECT_EQ(plan.timeline.makespan, predicted_seconds(plan.schedule, plan.run.machine, run_shape(plan.run).lanes));
  }
}

// In any order of the list.
TEST(StepNotes, say_update_of_what_updates_alone) {
  const StepPlan plan =
      plan_step({config({"schedule.lanes=true", "schedule.order=overlap", "train.micro_batch_size=8"})});
  int updates = 0, gradients = 0, backward = 0;
  for (const StepNote& note : step_notes(plan.schedule, check(plan.schedule), plan.costs)) {
    if (note.part == "update") {
      EXPECT_TRUE(note.name.starts_with("update.")) << note.name;
      ++updates;
    }
    gradients += note.part == "gradients";
    backward += note.part == "l0 backward" && note.kind == StepKind::product;
  }
  EXPECT_GT(updates, 10);
  EXPECT_GT(gradients, 0);
  EXPECT_GE(backward, 10) << "products of weights' gradients too";
}

TEST(Figures, of_memory_count_a_value_alike_in_any_order) {
  for (const char* recompute : {"memory.recompute=none", "memory.recompute=full"}) {
    const Schedule written = plan_step({config({"schedule.lanes=true", recompute})}).schedule,
                   overlap = plan_step({config({"schedule.lanes=true", "schedule.order=overlap", recompute})}).schedule;
    ASSERT_EQ(written.names, overlap.names);
    const std::vector<MemoryTag> a = memory_tags(written, check(written)), b = memory_tags(overlap, check(overlap));
    for (size_t v = 0; v < a.size(); ++v) EXPECT_TRUE(a[v] == b[v]) << written.names[v];
  }
}

TEST(Figures, of_the_critical_path_add_up_to_the_step) {
  for (const char* lanes : {"schedule.lanes=false", "schedule.lanes=true"}) {
    const std::vector<Figure> all = figures(plan_step({config({lanes, "train.micro_batch_size=8"})}));
    EXPECT_NEAR(sum(all, "critical path"), value(all, "step", ""), 1e-9);
  }
}

TEST(Figures, of_a_step_without_lanes_are_its_kinds_one_after_another) {
  const std::vector<Figure> all = figures(plan_step({config({})}));
  EXPECT_NEAR(sum(all, "one after another"), value(all, "step", ""), 1e-9);
  EXPECT_GT(value(all, "sent", "all_gather, node"), 0);
  EXPECT_GT(value(all, "sent", "all_to_all, network"), 0);
  EXPECT_GT(value(all, "messages", "all_reduce, network"), 0);
  EXPECT_GT(value(all, "memory", "parameters"), 0);
}

TEST(Figures, of_two_stand_side_by_side_with_their_ratio) {
  const std::vector<Figure> a = {{"step", "", "s", 2e-3}, {"messages", "x", "", 3}, {"sent", "x", "bytes", 2048}},
                            b = {{"step", "", "s", 3e-3}, {"messages", "y", "", 1}, {"sent", "x", "bytes", 1024}};
  EXPECT_EQ(figures_csv({a, b}),
            "what,kind,unit,A,B,ratio\n"
            "step,\"\",s,0.002,0.003,1.5\n"
            "messages,\"y\",,0,1,\n"
            "messages,\"x\",,3,0,0\n"
            "sent,\"x\",bytes,2048,1024,0.5\n");
  const std::string text = figures_text({a, b});
  EXPECT_NE(text.find("step         2.000 ms  3.000 ms  1.50x\n"), std::string::npos) << text;
  EXPECT_NE(text.find("sent      x  2.00 KiB  1.00 KiB  0.50x\n"), std::string::npos) << text;
  EXPECT_EQ(figures_csv({a}).substr(0, 17), "what,kind,unit,A\n");
}

TEST(Text, of_what_is_sent_names_collectives_and_levels) {
  const std::string text = traffic_text(plan_step({config({})}));
  for (const char* words : {"a rank sends    level    messages", "all_gather      node", "all_to_all      network"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_EQ(traffic_text(plan_step({ready_config("", std::vector<std::string>{"model.num_hidden_layers=1"})})),
            "a rank sends nothing\n");
}

TEST(Text, of_the_critical_path_says_what_it_consists_of) {
  const std::string text = critical_path_text(plan_step({config({"schedule.lanes=true"})}));
  for (const char* words : {"critical path, ", " steps, ", "computing ", "messages, node ", "handing over ",
                            "on the critical path", "the longest", "step "})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

TEST(Text, of_a_machine_says_what_is_a_guess) {
  EXPECT_EQ(machine_text(default_machine(2), 128),
            "machine: a laptop, a guess: nothing was measured (`plait bench collectives --out FILE` measures)");
  const Machine measured{.name = "two cores", .ranks = 2};
  EXPECT_EQ(machine_text(measured, 2), "machine: two cores, measured on 2 ranks");
  EXPECT_EQ(
      machine_text(measured, 128),
      "machine: two cores, measured on 2 ranks; this is of 128 ranks: what messages among more than 2 cost is a guess");
}

// What stands before a faster one says why.
TEST(Text, of_a_choice_says_why_a_slower_one_stands_first) {
  ChosenSchedule chosen{.run = {config({})}};
  chosen.choices = {{.candidate = {}, .seconds = 0.955e-3},
                    {.candidate = {.chunks = 2, .chunks_backward = 2}, .seconds = 0.935e-3}};
  const Explanation nothing;
  std::string text = explanation_text(chosen, nothing);
  EXPECT_NE(text.find("0.955  fewest parts of those within 5%\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0.935\n"), std::string::npos) << text;
  std::swap(chosen.choices[0], chosen.choices[1]);
  EXPECT_EQ(explanation_text(chosen, nothing).find("fewest"), std::string::npos);
  chosen.by = ChosenSchedule::By::trial;
  chosen.choices = {{{}, 1e-3, 1.005e-3}, {{.chunks = 2}, 2e-3, 1e-3}, {{.chunks = 4}, 0.5e-3}};
  text = explanation_text(chosen, nothing);
  EXPECT_NE(text.find("fewest parts of those within 1%\n"), std::string::npos) << text;
  chosen.by = ChosenSchedule::By::checkpoint;
  EXPECT_NE(explanation_text(chosen, nothing).find("the checkpoint's\n"), std::string::npos);
}

}  // namespace
}  // namespace plait
