// A run that ended with a number that is none: its steps again, from the last checkpoint, and the first value that is
// not finite.
#include "verify/replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/errors.h"
#include "corpus.h"
#include "data/batch.h"
#include "small_run.h"

namespace plait {
namespace {

std::optional<NotFiniteValue> replayed(const Config& config, const data::Corpus& corpus,
                                       std::optional<int64_t> steps = {}) {
  return first_not_finite(config, corpus, replay_plan(config, steps));
}

void expect_says(const std::optional<NotFiniteValue>& found, const std::vector<std::string>& parts) {
  ASSERT_TRUE(found);
  for (const std::string& part : parts) EXPECT_NE(found->text.find(part), std::string::npos) << found->text;
  EXPECT_EQ(found->text.find('\n'), std::string::npos) << found->text;
}

// The first token of update `step` with this id, in the order of micro-batches and data ranks.
struct Occurrence {
  int micro, dp_rank;
  int64_t sequence, position;
};
Occurrence first_with(int64_t id, const data::Corpus& corpus, const data::BatchPlan& plan, int64_t step) {
  const int64_t each = plan.batch_size / plan.num_micro / plan.dp_size;
  for (int micro = 0; micro < plan.num_micro; ++micro)
    for (int d = 0; d < plan.dp_size; ++d) {
      const data::Batch batch = data::make_batch(corpus, plan, {.step = step, .micro = micro, .dp_rank = d});
      for (int64_t t = 0; t < batch.ids_T.numel(); ++t)
        if (batch.ids_T[t].item<int64_t>() == id)
          return {micro, d, (micro * plan.dp_size + d) * each + t / plan.seq_length, t % plan.seq_length};
    }
  return {-1, -1, -1, -1};
}

// Only tokens with one id have a component that meets a weight near the end of float32.
TEST(Replay, names_the_sample_and_the_rank_whose_number_overflows) {
  const ScratchFolder folder;
  const data::Corpus corpus = random_corpus();
  const Config config = small_run(folder / "run", {"mesh.tp=2", "mesh.ep=2", "train.micro_batch_size=2",
                                                   "model.tie_word_embeddings=false", "train.dtype=float32"});
  run_to(config, corpus, 3);
  const data::BatchPlan plan = batch_plan(config, run_shape(config));
  ASSERT_EQ(plan.num_micro, 2);
  const int64_t id = data::make_batch(corpus, plan, {.step = 3, .micro = 1, .dp_rank = 1}).ids_T[10].item<int64_t>();
  rewrite_checkpoint(config.log.dir, [&](const std::string& name, const at::Tensor& x) {
    if (name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos) x.zero_();
    if (name == "model.embed_tokens.weight") x.select(1, 0).zero_(), x[id][0] = 1000;
    if (name == "lm_head.weight") x[7][0] = 3e38;
  });
  const Occurrence at = first_with(id, corpus, plan, 3);
  const std::optional<NotFiniteValue> found = replayed(config, corpus);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 4);
  EXPECT_EQ(found->micro, at.micro);
  EXPECT_EQ(found->rank, 2 * at.dp_rank) << "the half of the vocabulary that has id 7";
  EXPECT_FALSE(found->layer);
  ASSERT_TRUE(found->sample) << found->text;
  EXPECT_EQ(found->sample->sequence, at.sequence);
  EXPECT_EQ(found->sample->position, at.position);
  EXPECT_EQ(corpus.training()[static_cast<size_t>(found->sample->start + at.position)], id);
  expect_says(found, {fmt::format("training step 4, micro-batch {} of 2: %", at.micro + 1), "is infinite on rank",
                      "einsum", "V = 7", "; made of %", "lm_head.weight", "at most 3e+38",
                      fmt::format("position {} of sequence {} of the batch", at.position, at.sequence)});
}

// What a gate is given: the run ends by it, and what came before is named.
TEST(Replay, names_what_made_the_logits_of_a_gate_no_numbers) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"mesh.ep=2"});
  run_to(config, random_corpus(), 3);
  rewrite_checkpoint(config.log.dir, [](const std::string& name, const at::Tensor& x) {
    if (name == "model.layers.1.mlp.gate.weight") x.fill_(3e38);
  });
  const std::optional<NotFiniteValue> found = replayed(config, random_corpus());
  expect_says(found,
              {"training step 4, layer 1: %l1.logits", "einsum", "model.layers.1.mlp.gate.weight", "sequence 0"});
  EXPECT_EQ(found->layer, 1);
}

TEST(Replay, names_a_weight_that_the_checkpoint_has_so) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"mesh.tp=2", "mesh.ep=2"});
  run_to(config, random_corpus(), 2);
  rewrite_checkpoint(config.log.dir, [](const std::string& name, const at::Tensor& x) {
    if (name == "model.layers.0.self_attn.v_proj.weight") x.view({-1})[3] = NAN;
  });
  expect_says(
      replayed(config, random_corpus()),
      {"training step 3, layer 0: %model.layers.0.self_attn.v_proj.weight, as the step begins, is nan on rank"});
}

// The update makes it, whatever reads it later.
TEST(Replay, names_a_weight_that_an_update_leaves_so) {
  const ScratchFolder folder;
  const Config config =
      small_run(folder / "run", {"mesh.ep=2", "optim.lr=3e38", "optim.clip=0", "optim.warmup_steps=0"});
  EXPECT_NE(refusal<wire::RankFailure>([&] { run_to(config, random_corpus()); }).find("training step 2: "),
            std::string::npos);
  expect_says(replayed(config, random_corpus()), {"training step 1", "as the step leaves it, is infinite on rank 0"});
}

// The same step as the run's own end, from the start where there is no checkpoint, else from there.
TEST(Replay, ends_at_the_step_at_which_the_run_did) {
  for (const char* save : {"train.save_every=0", "train.save_every=1"}) {
    const ScratchFolder folder;
    const Config config = small_run(
        folder / "run", {"mesh.tp=2", "mesh.dp=2", "moe.num_experts=0", "optim.lr=1e12", "optim.warmup_steps=0", save});
    const std::string message = refusal<wire::RankFailure>([&] { run_to(config, random_corpus()); });
    const ReplayPlan plan = replay_plan(config);
    EXPECT_EQ(plan.checkpoint.empty(), std::string_view(save).ends_with("0"));
    const std::optional<NotFiniteValue> found = replayed(config, random_corpus());
    ASSERT_TRUE(found);
    EXPECT_NE(message.find(fmt::format("training step {}: ", found->step)), std::string::npos) << message << "\n"
                                                                                               << found->text;
    EXPECT_GT(found->step, plan.first);
  }
}

TEST(Replay, finds_nothing_in_a_run_that_is_well_and_writes_nothing) {
  for (const char* type : {"float32", "bfloat16", "float16"}) {
    const ScratchFolder folder;
    const Config config = small_run(
        folder / "run", {"mesh.tp=2", "mesh.ep=2", "train.micro_batch_size=2", "moe.gate=noisy_topk",
                         "schedule.lanes=true", "memory.recompute=full", fmt::format("train.dtype={}", type)});
    run_to(config, random_corpus(), 3);
    const auto contents = [&] {
      std::map<std::string, std::filesystem::file_time_type> all;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(config.log.dir))
        all[entry.path().string()] = entry.last_write_time();
      return all;
    };
    const auto before = contents();
    const std::optional<NotFiniteValue> found = replayed(config, random_corpus());
    EXPECT_FALSE(found) << type << ": " << found->text;
    EXPECT_EQ(contents(), before);
  }
}

// A step that overflows is skipped and is no fault, unless there is nothing else.
TEST(Replay, of_float16_names_a_skipped_step_last_of_all) {
  const ScratchFolder folder;
  const Config config = small_run(
      folder / "run", {"train.dtype=float16", "train.initial_scale_power=40", "train.hysteresis=1", "mesh.ep=2"});
  run_to(config, random_corpus(), 2);
  const std::optional<NotFiniteValue> skipped = replayed(config, random_corpus(), 2);
  expect_says(skipped, {"training step 3", "the gradient of %", "; float16 skipped this step"});
  rewrite_checkpoint(config.log.dir, [](const std::string& name, const at::Tensor& x) {
    if (name == "model.layers.1.mlp.gate.weight") x.fill_(3e38);
  });
  expect_says(replayed(config, random_corpus(), 2), {"training step 3, layer 1: %l1.logits"});
}

TEST(Replay, asks_how_far_behind_the_end_of_a_run) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"train.steps=2"});
  EXPECT_EQ(replay_plan(config).first, 0);
  EXPECT_EQ(replay_plan(config).end, 2);
  run_to(config, random_corpus());
  EXPECT_EQ(replay_plan(config, 3).end, 5);
  const std::string why = refusal<InputError>([&] { replay_plan(config); });
  EXPECT_NE(why.find("is at the end of the run, train.steps = 2: say with --steps"), std::string::npos) << why;
}

}  // namespace
}  // namespace plait
