// What saves memory changes no number: shares of parameters and moments, and what is made again for backward.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "choices.h"
#include "corpus.h"
#include "small_run.h"
#include "verify/verify.h"

namespace plait {
namespace {

using Keys = std::vector<std::string>;

Config with(const std::string& dir, const Keys& layout, const Keys& more) {
  Keys all = layout;
  all.insert(all.end(), more.begin(), more.end());
  return small_run(dir, all);
}

// tp 2 and ep 2; shares that do not divide, over three data ranks; experts on one data rank alone and shared by two.
const std::vector<Keys> kLayouts = {{"mesh.tp=2", "mesh.ep=2"},
                                    {"mesh.tp=2", "mesh.dp=3", "train.batch_size=12", "schedule.moe=dtd"},
                                    {"mesh.ep=2", "mesh.dp=4", "schedule.moe=s1"},
                                    {"mesh.tp=2", "mesh.ep=2", "mesh.esp=1", "mesh.dp=2", "schedule.moe=s2"},
                                    {"mesh.tp=2", "mesh.ep=2", "schedule.moe=parm", "train.micro_batch_size=2"},
                                    {"mesh.ep=4", "moe.capacity=1.0", "train.micro_batch_size=1"}};

TEST(Memory, is_shared_out_and_everything_computes_what_one_rank_computes) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  for (const Keys& layout : kLayouts)
    for (const Keys& memory : {Keys{"memory.zero=1"}, Keys{"memory.zero=3", "memory.recompute=full"}}) {
      const Config config = with(folder / "run", layout, memory);
      EXPECT_EQ(near_choice(config, corpus), "");
      const VerifyReport report = verify(config, corpus);
      EXPECT_TRUE(report.agrees()) << fmt::format("{} {}: {:.1e}", fmt::join(layout, " "), fmt::join(memory, " "),
                                                  report.largest());
    }
}

std::string weights(const RunReport& report) {
  return slurp(report.checkpoint + "/model.safetensors") + slurp(report.checkpoint + "/optimizer.safetensors");
}

// What the gates told in each step.
std::string loads(const std::string& dir) {
  std::string all;
  std::ifstream file(dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const JsonObject told = JsonObject::parse(line, "metrics.jsonl");
    for (const char* key : {"loss", "aux_loss", "busiest", "dropped"}) all += fmt::format("{} ", told.number(key));
  }
  return all;
}

TEST(Memory, saved_by_making_values_again_leaves_every_bit) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  int run = 0;
  for (const Keys& layout : kLayouts) {
    const auto trained = [&](const Keys& memory) {
      const std::string dir = folder / fmt::format("{}", run++);
      return weights(run_to(with(dir, layout, memory), corpus)) + loads(dir);
    };
    const std::string kept = trained({"train.steps=2"});
    ASSERT_GT(kept.size(), 10000u);
    for (const char* how : {"selective", "full"})
      for (const char* moves : {"all", "reduce_and_exchange", "none"})
        EXPECT_EQ(trained({"train.steps=2", fmt::format("memory.recompute={}", how),
                           fmt::format("memory.keep_moves={}", moves)}) == kept,
                  true)
            << fmt::format("{} {} {}", fmt::join(layout, " "), how, moves);
  }
}

TEST(Memory, shared_out_is_saved_whole_and_loaded_at_any_other_layout) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  const Keys same = {"train.dtype=float64", "train.batch_size=12", "schedule.moe=dtd"};
  const std::vector<Keys> layouts = {
      {"mesh.tp=2", "mesh.dp=3", "memory.zero=1"}, {"mesh.ep=2", "memory.zero=3"}, {}, {"mesh.tp=2", "mesh.ep=2"}};
  const auto at = [&](const std::string& dir, const Keys& layout, int64_t stop_after) {
    return run_to(with(folder / dir, same, layout), corpus, stop_after);
  };
  const std::string whole = at("whole", {}, -1).checkpoint;
  for (const Keys& first : layouts)
    for (const Keys& second : layouts) {
      const std::string dir = fmt::format("{}-{}", fmt::join(first, ""), fmt::join(second, ""));
      at(dir, first, 3);
      const Checkpoint end(at(dir, second, -1).checkpoint), want(whole);
      ASSERT_EQ(end.step(), want.step());
      for (const auto* list : {&want.model(), &want.optimizer()})
        for (const TensorInfo& info : *list)
          EXPECT_TRUE(end.read(info.name).allclose(want.read(info.name), 1e-6, 1e-12)) << info.name << " " << dir;
    }
}

TEST(Memory, shared_out_goes_on_in_every_bit_after_a_stop) {
  const data::Corpus corpus = random_corpus();
  const ScratchFolder folder;
  for (const char* zero : {"memory.zero=1", "memory.zero=3"}) {
    const Keys layout = {"mesh.tp=2", "mesh.dp=3", "train.batch_size=12", zero};
    const std::string once = weights(run_to(with(folder / fmt::format("once-{}", zero), layout, {}), corpus));
    const std::string dir = folder / fmt::format("twice-{}", zero);
    run_to(with(dir, layout, {}), corpus, 3);
    EXPECT_EQ(weights(run_to(with(dir, layout, {}), corpus)) == once, true) << zero;
  }
}

}  // namespace
}  // namespace plait
