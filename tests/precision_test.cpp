// Whole runs in 2-byte precision: what they store, that they learn as float32 does, resume in every bit, and skip a
// step that overflows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "choices.h"
#include "corpus.h"
#include "small_run.h"
#include "train/metrics.h"
#include "verify/verify.h"

namespace plait {
namespace {

using Keys = std::vector<std::string>;

const std::vector<Keys> kLayouts = {{"mesh.tp=2", "mesh.ep=2"},
                                    {"mesh.ep=2", "schedule.moe=s1", "train.micro_batch_size=2"},
                                    {"mesh.tp=2", "mesh.ep=2", "schedule.moe=parm", "moe.gate=sigmoid"},
                                    {"mesh.tp=2", "mesh.dp=3", "train.batch_size=12", "memory.zero=1"},
                                    {"mesh.tp=2", "mesh.ep=2", "schedule.moe=s2", "schedule.slice=tokens"},
                                    {"mesh.tp=2", "mesh.ep=2", "mesh.node=2", "schedule.moe=s1",
                                     "schedule.dispatch=node", "moe.gate=noisy_topk", "train.micro_batch_size=2"},
                                    {"mesh.ep=2", "memory.zero=3", "memory.recompute=full", "schedule.moe=dtd"}};

Config with(const std::string& dir, Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return small_run(dir, keys);
}

std::string weights(const RunReport& report) {
  return slurp(report.checkpoint + "/model.safetensors") + slurp(report.checkpoint + "/optimizer.safetensors");
}

// A list with casts, in numbers without rounding.
TEST(Precision, mixed_lists_compute_what_one_rank_computes) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  for (const Keys& layout : kLayouts)
    for (const char* sums : {"float32", "param"}) {
      const Config config =
          with(folder / "run", layout, {"train.dtype=bfloat16", fmt::format("memory.grad_dtype={}", sums)});
      EXPECT_EQ(near_choice(config, corpus), "");
      const VerifyReport report = verify(config, corpus);
      EXPECT_TRUE(report.agrees()) << fmt::format("{} {}: {:.1e}", fmt::join(layout, " "), sums, report.largest());
    }
}

TEST(Precision, of_two_bytes_goes_on_in_every_bit_after_a_stop_and_keeps_float32_parameters) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  int run = 0;
  for (const Keys& layout : kLayouts) {
    const Keys half = {run % 2 ? "train.dtype=bfloat16" : "train.dtype=float16"};
    const Config whole = with(folder / fmt::format("whole{}", run), layout, half),
                 parts = with(folder / fmt::format("parts{}", run++), layout, half);
    const RunReport straight = run_to(whole, corpus);
    run_to(parts, corpus, 3);
    EXPECT_EQ(weights(straight) == weights(run_to(parts, corpus)), true) << fmt::format("{}", fmt::join(layout, " "));
    for (const TensorInfo& info : Checkpoint(straight.checkpoint).model()) EXPECT_EQ(info.dtype, at::kFloat);
  }
}

TEST(Precision, of_any_kind_goes_on_from_any_other) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  const Config begun = small_run(folder / "begun", {"train.dtype=bfloat16"});
  run_to(begun, corpus, 3);
  for (const char* other : {"float32", "float64", "float16"}) {
    const Config config = small_run(folder / other, {fmt::format("train.dtype={}", other)});
    std::filesystem::copy(begun.log.dir, config.log.dir, std::filesystem::copy_options::recursive);
    EXPECT_EQ(run_to(config, corpus).first_step, 3) << other;
  }
}

// Text with something to learn: each byte follows from the one before it, mostly.
data::Corpus chained_corpus() {
  data::Corpus corpus = random_corpus(40000);
  for (size_t i = 1; i < corpus.tokens.size(); ++i)
    if (corpus.tokens[i] % 4) corpus.tokens[i] = static_cast<uint8_t>((7 * corpus.tokens[i - 1] + 11) % 64);
  return corpus;
}

// Mean loss of the last 20 of 200 steps.
double final_loss(const std::string& dir, const Keys& keys) {
  Keys all = {"train.steps=200", "train.eval_every=200", "mesh.ep=2", "train.seq_length=16", "optim.lr=3e-3"};
  all.insert(all.end(), keys.begin(), keys.end());
  run_to(small_run(dir, all), chained_corpus());
  double sum = 0;
  const std::vector<MetricPoint> losses = read_metric(dir + "/metrics.jsonl", "loss");
  EXPECT_EQ(losses.size(), 200u);
  for (size_t i = losses.size() - 20; i < losses.size(); ++i) sum += losses[i].value / 20;
  return sum;
}

TEST(Precision, of_two_bytes_tracks_the_loss_of_float32_for_200_steps) {
  const ScratchFolder folder;
  const double full = final_loss(folder / "full", {});
  EXPECT_LT(full, 5.2) << "it must have learned something";
  for (const Keys& keys : {Keys{"train.dtype=bfloat16"}, Keys{"train.dtype=bfloat16", "memory.grad_dtype=param"},
                           Keys{"train.dtype=float16", "memory.grad_dtype=param", "memory.tile=1000"}})
    EXPECT_NEAR(final_loss(folder / fmt::format("{}", keys.size() * 10 + keys[0].size()), keys), full, 0.01 * full)
        << keys[0];
}

TEST(Precision, an_overflow_skips_the_step_on_every_rank_and_halves_the_scale_once) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  // 2^30 times the loss is beyond what float16 holds: the first steps overflow until the scale has come down.
  const Config config =
      small_run(folder / "run", {"train.dtype=float16", "train.initial_scale_power=30", "mesh.tp=2", "mesh.ep=2",
                                 "moe.gate=sigmoid", "train.hysteresis=2", "train.steps=3"});
  std::vector<StepReport> told;
  const RunObserver observer{.step = [&](const StepReport& r) { told.push_back(r); }};
  const std::string end = refusal<wire::RankFailure>([&] { train(config, corpus, observer); });
  EXPECT_NE(end.find("all 3 steps were skipped, as a gradient was not finite in each: nothing was learned"),
            std::string::npos)
      << end;
  ASSERT_EQ(told.size(), 3u);
  const double scale = std::ldexp(1.0, 30);
  for (const StepReport& r : told) EXPECT_TRUE(r.result.skipped);
  EXPECT_EQ(told[0].result.loss_scale, scale);
  EXPECT_EQ(told[1].result.loss_scale, scale);
  EXPECT_EQ(told[2].result.loss_scale, scale / 2);
  const Checkpoint saved(*find_latest(config.log.dir));
  EXPECT_EQ(saved.json().number("loss_scale"), scale / 4);
  for (const TensorInfo& moment : saved.optimizer())
    EXPECT_EQ(saved.read(moment.name).abs().max().item<double>(), 0) << moment.name;
}

// At the smallest scale nothing can get better.
TEST(Precision, of_float16_that_overflows_at_the_smallest_scale_ends_the_run) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"train.dtype=float16", "train.initial_scale_power=30",
                                                   "train.min_loss_scale=1073741824", "train.steps=40"});
  const std::string end = refusal<wire::RankFailure>([&] { run_to(config, random_corpus()); });
  EXPECT_NE(end.find("training step 10: a gradient was not finite in each of the last 10 steps, at the smallest loss "
                     "scale (train.min_loss_scale = 1073741824)"),
            std::string::npos)
      << end;
  EXPECT_FALSE(find_latest(config.log.dir));
}

TEST(Precision, of_float16_unscales_what_it_updates_with) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  std::vector<double> norms;
  for (int power : {4, 12}) {
    const std::string dir = folder / fmt::format("power{}", power);
    run_to(small_run(dir, {"train.dtype=float16", "train.steps=1", fmt::format("train.initial_scale_power={}", power)}),
           corpus);
    norms.push_back(read_metric(dir + "/metrics.jsonl", "grad_norm").front().value);
  }
  EXPECT_NEAR(norms[1] / norms[0], 1, 2e-2);
}

}  // namespace
}  // namespace plait
