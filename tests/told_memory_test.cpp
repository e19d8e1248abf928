// Memory told in advance beside what a run takes: the same bytes by class, over layouts, families, rows and
// micro-batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/errors.h"
#include "base/units.h"
#include "corpus.h"
#include "small_run.h"
#include "train/memory.h"

namespace plait {
namespace {

struct RankMemory {
  MemoryPlan plan;
  MemoryUse measured;
  int64_t peak = 0, reserved = 0;  // of the buffers' blocks
};

// One step of every rank, and its plan with the rows that the step had.
std::vector<RankMemory> first_step(const Config& config) {
  const data::Corpus corpus = random_corpus();
  const RunShape shape = run_shape(config);
  std::vector<RankMemory> ranks(static_cast<size_t>(shape.mesh.ranks()));
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    const RankContext context{rank, &world, dtype_of(config)};
    const std::vector<ValueId> tables = RowWatch::tables(build_step(shape).schedule);
    Trainer trainer(config, shape, corpus, context, {tables});
    const Executor& executor = trainer.executor();
    RowWatch watch(executor, context);
    trainer.observe([&](const Span& span) { watch.note(span); });
    trainer.step(0, config.optim.lr);
    RankMemory& mine = ranks[static_cast<size_t>(rank)];
    mine = {
        .measured = executor.memory(), .peak = executor.buffers().peak(), .reserved = executor.buffers().reserved()};
    mine.plan = plan_memory(executor.schedule(), executor.types(),
                            {.rank = rank, .item = item_of(context.dtype), .kept = tables, .tables = watch.whole()});
  });
  return ranks;
}

std::string text(const MemoryUse& use) {
  std::string all;
  for (int c = 0; c < kMemoryClasses; ++c)
    all += fmt::format("{} {} + {}, ", name(static_cast<MemoryClass>(c)), use.dense[static_cast<size_t>(c)],
                       use.expert[static_cast<size_t>(c)]);
  return all;
}

class ToldMemory : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(ToldMemory, is_what_the_run_takes) {
  const ScratchFolder folder;
  const std::vector<RankMemory> ranks = first_step(small_run(folder / "run", GetParam()));
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto& [plan, measured, peak, reserved] = ranks[r];
    EXPECT_EQ(measured, plan.peak) << fmt::format("rank {}, step {}\nmeasured {}\ntold {}", r, plan.step,
                                                  text(measured), text(plan.peak));
    EXPECT_GE(reserved, peak);
    EXPECT_GT(plan.peak.states(), 0);
  }
}

std::vector<std::vector<std::string>> cases() {
  std::vector<std::vector<std::string>> all = {
      {"moe.num_experts=0"},
      {"moe.num_experts=0", "mesh.tp=2", "mesh.dp=2", "optim.name=sgd"},
      {"moe.every=1", "train.micro_batch_size=2", "train.dtype=float64"},
      {"mesh.tp=4", "mesh.esp=2", "mesh.ep=2", "moe.every=1"},
      {"mesh.tp=2", "mesh.ep=4", "mesh.esp=1", "mesh.dp=2", "schedule.chunks=2"}};
  for (const char* family : {"ted", "dtd", "parm", "s1", "s2", "sharded"})
    for (const char* capacity : {"none", "2"})
      for (int micro : {4, 2})
        all.push_back({"mesh.tp=2", "mesh.ep=2", fmt::format("schedule.moe={}", family),
                       fmt::format("moe.capacity={}", capacity), fmt::format("train.micro_batch_size={}", micro)});
  for (const char* zero : {"0", "1", "3"})
    for (const char* recompute : {"none", "selective", "full"})
      all.push_back({"mesh.tp=2", "mesh.ep=2", "mesh.dp=4", "schedule.moe=dtd", "train.micro_batch_size=1",
                     fmt::format("memory.zero={}", zero), fmt::format("memory.recompute={}", recompute)});
  for (const char* keep : {"reduce_and_exchange", "none"})
    all.push_back({"mesh.tp=2", "mesh.dp=3", "train.batch_size=12", "schedule.moe=ted", "memory.zero=1",
                   "memory.recompute=full", fmt::format("memory.keep_moves={}", keep)});
  for (const char* dtype : {"train.dtype=bfloat16", "train.dtype=float16"})
    for (const char* sums : {"memory.grad_dtype=float32", "memory.grad_dtype=param"})
      for (const char* family : {"schedule.moe=dtd", "schedule.moe=s2"})
        all.push_back({"mesh.tp=2", "mesh.ep=2", dtype, sums, family, "train.micro_batch_size=2", "moe.gate=sigmoid"});
  all.push_back({"mesh.tp=2", "mesh.ep=2", "mesh.dp=4", "train.dtype=bfloat16", "memory.zero=3",
                 "memory.recompute=full", "train.micro_batch_size=1"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, ToldMemory, testing::ValuesIn(cases()));

std::string refusal(const std::vector<std::string>& overrides) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", overrides);
  try {
    run_to(config, random_corpus());
  } catch (const InputError& e) {
    EXPECT_FALSE(std::filesystem::exists(folder / "run")) << "refused before anything is made";
    return e.what();
  }
  return "";
}

TEST(MemoryLimit, refuses_what_does_not_fit_and_names_the_largest_part) {
  EXPECT_EQ(refusal({"train.steps=1", "memory.limit=1GB"}), "");
  const std::string experts = refusal({"mesh.ep=2", "mesh.dp=4", "moe.moe_intermediate_size=512", "memory.limit=1kB"});
  EXPECT_TRUE(experts.starts_with("memory.limit = \"1kB\", but a rank needs ")) << experts;
  EXPECT_NE(experts.find("the largest part of it is optimizer state of experts"), std::string::npos) << experts;
  EXPECT_TRUE(experts.ends_with(": set memory.zero = 1, or raise mesh.ep or mesh.esp")) << experts;
  const std::string kept = refusal({"train.seq_length=256", "memory.limit=1kB"});
  EXPECT_NE(kept.find("activations, kept"), std::string::npos) << kept;
  EXPECT_NE(kept.find(": set memory.recompute = \"full\", or lower train.micro_batch_size"), std::string::npos) << kept;
}

launch::Limit limit_of(int64_t left, launch::Limit::Of of = launch::Limit::Of::node) {
  return {.by = "/sys/fs/cgroup/job/memory.max", .most = left + 1000, .taken = 1000, .of = of};
}

TEST(MemoryHere, is_that_of_all_ranks_of_the_node_beside_what_is_left) {
  using Is = MemoryFit::Is;
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"mesh.ep=2", "mesh.dp=4"});
  const int64_t each = predict_memory(config).peak.total(), besides = int64_t{256} << 20;
  const auto fit = [&](launch::RanksHere ranks, int64_t left, launch::Limit::Of of = launch::Limit::Of::node) {
    return memory_fit(config, {ranks, {limit_of(int64_t{1} << 50), limit_of(left, of)}});
  };
  EXPECT_EQ(fit({4, 4}, 4 * each + besides).is, Is::fine);
  EXPECT_EQ(fit({4, 4}, 4 * each + besides).line, "");
  EXPECT_EQ(fit({4, 4}, 4 * each + besides - 1).is, Is::tight);
  EXPECT_EQ(fit({8, 8}, 8 * each - 1).is, Is::beyond_here);
  EXPECT_EQ(fit({16, 1}, 16 * each).is, Is::tight) << "processes share the node";
  EXPECT_EQ(fit({16, 1}, 16 * each - 1).is, Is::beyond_here);
  EXPECT_EQ(fit({16, 1}, 2 * each, launch::Limit::Of::process).is, Is::tight) << "and have addresses of their own";
  const std::string line = fit({1000, 1000}, 10'000'000).line;
  const auto each_bytes = static_cast<double>(each);
  EXPECT_TRUE(line.starts_with(fmt::format(
      "1000 ranks here need {}, {} each, and of 9.54 MiB (/sys/fs/cgroup/job/memory.max) 9.54 MiB are left; "
      "the largest part of it is ",
      human_bytes(1000 * each_bytes), human_bytes(each_bytes))))
      << line;
}

TEST(MemoryHere, does_not_hide_the_limit_of_a_rank) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"memory.limit=1kB"});
  const MemoryFit fit = memory_fit(config, {{1, 1}, {limit_of(10'000'000)}});
  EXPECT_EQ(fit.is, MemoryFit::Is::beyond_limit);
  EXPECT_EQ(fit.line, plait::refusal<InputError>([&] { expect_memory(config); })) << "in the same words";
}

TEST(MemoryHere, warns_where_less_than_a_tenth_of_a_large_run_remains) {
  const ScratchFolder folder;
  const Config config = small_run(
      folder / "run", {"model.hidden_size=4096", "model.intermediate_size=16384", "moe.moe_intermediate_size=16384"});
  const int64_t each = predict_memory(config).peak.total();
  ASSERT_GT(each, int64_t{4} << 30);
  EXPECT_EQ(memory_fit(config, {{1, 1}, {limit_of(each / 100 * 109)}}).is, MemoryFit::Is::tight);
  EXPECT_EQ(memory_fit(config, {{1, 1}, {limit_of(each / 100 * 111)}}).is, MemoryFit::Is::fine);
}

TEST(MemoryLimit, is_that_of_a_rank_to_the_byte) {
  const ScratchFolder folder;
  const auto with = [&](int64_t limit) {
    return small_run(folder / "run", std::vector<std::string>{fmt::format("memory.limit={}", limit)});
  };
  const int64_t needed = predict_memory(with(1)).peak.total();
  EXPECT_NO_THROW(expect_memory(with(needed)));
  EXPECT_THROW(expect_memory(with(needed - 1)), InputError);
}

}  // namespace
}  // namespace plait
