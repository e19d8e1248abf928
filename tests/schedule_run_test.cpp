// Whole training steps from `plait show`, run as lists from a file are: against themselves on one rank. And edited at
// random: what is no schedule any more has one line that says where.
#include <gtest/gtest.h>

#include "base/testing/scratch_folder.h"
#include "base/text.h"
#include "schedule/testing/random_text.h"
#include "schedule/text.h"
#include "train/trainer.h"
#include "verify/verify_schedule.h"

namespace plait {
namespace {

// Of configs/tiny.toml on four ranks.
const std::vector<std::vector<std::string>> kSteps = {
    {"schedule.moe=s1", "schedule.chunks=2", "train.micro_batch_size=4"},
    {"schedule.moe=dtd", "memory.recompute=full"},
    {"schedule.moe=s2", "moe.capacity=1", "moe.drop=position"},
    {"schedule.rows=padded", "train.dtype=bfloat16"},
    {"moe.gate=switch", "moe.num_experts_per_tok=1", "moe.sample=gumbel", "moe.aux_scope=local"},
    {"moe.gate=gshard", "moe.capacity=0.5", "moe.min_capacity=1", "moe.group=8", "moe.jitter=0.1"},
    {"moe.gate=sigmoid", "moe.aux_coef=0.5", "moe.z_coef=0.1"},
    {"moe.gate=expert_choice", "moe.capacity=1", "moe.min_capacity=1", "moe.group=8"},
    {"moe.gate=base", "moe.num_experts_per_tok=1", "moe.group=8"},
    {"moe.gate=hash"},
    {"moe.gate=noisy_topk", "moe.aux_coef=0.5"},
    {"mesh.tp=1", "mesh.ep=4", "mesh.node=2", "schedule.dispatch=node"},
};

Schedule step_of(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"mesh.tp=2", "mesh.ep=2"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return build_step(run_shape(ready_config("configs/tiny.toml", all))).schedule;
}

TEST(ScheduleRun, of_whole_training_steps_agrees_with_one_rank) {
  for (const std::vector<std::string>& overrides : kSteps) {
    SCOPED_TRACE(join(overrides, " "));
    const ScheduleReport report = verify_schedule(parse_schedule(print(step_of(overrides))), {.seed = 5});
    EXPECT_TRUE(report.agrees()) << report.largest();
    EXPECT_GT(report.lines.size(), 30u);  // outputs, and of each parameter the gradient and what becomes of it
  }
}

TEST(ScheduleText, of_training_steps_edited_at_random_is_read_or_refused_with_its_place) {
  std::vector<std::string> texts;
  for (const std::vector<std::string>& overrides : kSteps) texts.push_back(print(step_of(overrides)));
  oracle::TextDice dice(3);
  for (int i = 0; i < 600; ++i) {
    std::string text = dice.pick(texts);
    for (size_t edits = 1 + dice.below(3); edits > 0; --edits) text = oracle::edited(text, dice);
    const std::string what = refusal<InputError>([&] { parse_schedule(text, "own.txt"); });
    if (what == "accepted") continue;
    EXPECT_EQ(what.substr(0, 8), "own.txt:") << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace plait
