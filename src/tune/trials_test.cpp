// Schedules that were tried: every rank orders them alike, and the fastest stands first.
#include "tune/trials.h"

#include <gtest/gtest.h>

#include <mutex>

#include "train/loop.h"
#include "wire/ranks.h"

namespace plait {
namespace {

// A layer whose experts are most of the work; four copies of every token make `parm` do it four times.
Config config(const std::string& dtype) {
  return ready_config(
      "", std::vector<std::string>{"train.dtype=" + dtype, "model.num_hidden_layers=4", "moe.every=2",
                                   "model.hidden_size=128", "model.num_attention_heads=4", "moe.num_experts=4",
                                   "moe.moe_intermediate_size=512", "train.seq_length=256", "train.batch_size=4",
                                   "mesh.tp=4", "mesh.ep=4", "mesh.esp=1", "mesh.threads=1"});
}

std::vector<std::vector<Choice>> tried_on_all_ranks(const std::vector<Choice>& choices,
                                                    const std::string& dtype = "float32", int64_t bytes = INT64_MAX) {
  const Config c = config(dtype);
  const RunShape s = run_shape(c);
  const Machine machine = default_machine(4);
  const TrialLayer trial{.mesh = s.mesh, .sizes = s.sizes, .machine = machine, .seconds = 0.05, .bytes = bytes};
  std::vector<std::vector<Choice>> all(4);
  std::mutex mutex;
  wire::run_ranks({.ranks = 4, .lanes = 2}, [&](int rank, wire::World& world) {
    std::vector<Choice> mine = try_out(choices, trial, {rank, &world, dtype_of(c)});
    const std::lock_guard lock(mutex);
    all[static_cast<size_t>(rank)] = std::move(mine);
  });
  return all;
}

const std::vector<Choice> kChoices = {{{&families::parm}, 1e-3},
                                      {{&families::sharded, Fuse::no, 2, 2, NodeLanes{4}}, 1.1e-3},
                                      {{&families::sharded}, 1.2e-3},
                                      {{&families::s2}, 1.3e-3}};

TEST(Trials, measure_every_choice_and_put_the_fastest_first) {
  const std::vector<Choice> tried = tried_on_all_ranks(kChoices)[0];
  ASSERT_EQ(tried.size(), kChoices.size());
  for (const Choice& c : kChoices) {
    const auto found = std::ranges::find(tried, c.candidate, &Choice::candidate);
    ASSERT_NE(found, tried.end()) << to_string(c.candidate);
    EXPECT_GT(found->measured, 0);
    EXPECT_EQ(found->seconds, c.seconds);
  }
  EXPECT_NE(tried.front().candidate.family, &families::parm) << "it does four times the work";
}

TEST(Trials, end_alike_on_all_ranks) {
  const std::vector<std::vector<Choice>> all = tried_on_all_ranks(kChoices);
  for (const std::vector<Choice>& mine : all)
    for (size_t i = 0; i < kChoices.size(); ++i) {
      EXPECT_EQ(mine[i].candidate, all[0][i].candidate);
      EXPECT_EQ(mine[i].measured, all[0][i].measured);
    }
}

TEST(Trials, run_in_the_numbers_of_the_run) {
  for (const char* dtype : {"float64", "bfloat16"}) {
    const std::vector<Choice> tried = tried_on_all_ranks(kChoices, dtype)[0];
    for (const Choice& c : tried) EXPECT_GT(c.measured, 0) << dtype;
  }
}

TEST(Trials, with_little_memory_still_measure_every_choice) {
  const std::vector<Choice> tried = tried_on_all_ranks(kChoices, "float32", 1)[0];
  ASSERT_EQ(tried.size(), kChoices.size());
  for (const Choice& c : tried) EXPECT_GT(c.measured, 0);
}

TEST(Trials, of_one_choice_run_nothing) { EXPECT_TRUE(tried_on_all_ranks({kChoices[0]})[0].empty()); }

}  // namespace
}  // namespace plait
