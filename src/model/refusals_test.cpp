// Every combination of small choices: a config is refused in one line that names its keys, or its step can be written
// and types.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/random.h"
#include "model/step.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

const std::vector<std::pair<const char*, std::vector<Overrides>>> kChoices = {
    {"family",
     {{"schedule.moe=ted"},
      {"schedule.moe=dtd"},
      {"schedule.moe=s1"},
      {"schedule.moe=s2"},
      {"schedule.moe=parm"},
      {"schedule.moe=sharded"}}},
    {"layout",
     {{},
      {"mesh.tp=2", "mesh.ep=2"},
      {"mesh.tp=2", "mesh.ep=2", "mesh.dp=4"},
      {"mesh.tp=2", "mesh.esp=4", "mesh.ep=2"},
      {"mesh.tp=4", "mesh.esp=2", "mesh.ep=4"},
      {"mesh.tp=1", "mesh.esp=2", "mesh.ep=2"},
      {"mesh.tp=4", "mesh.esp=1", "mesh.ep=4"},
      {"mesh.tp=4", "mesh.esp=2", "mesh.ep=3"},
      {"mesh.tp=2", "mesh.esp=2", "mesh.ep=2", "mesh.dp=3"},
      {"mesh.dp=8"}}},
    {"gate",
     {{},
      {"moe.order=topk_first", "moe.normalize=none"},
      {"moe.jitter=0.1"},
      {"moe.gate=switch", "moe.num_experts_per_tok=1"},
      {"moe.gate=switch", "moe.num_experts_per_tok=1", "moe.sample=gumbel"},
      {"moe.gate=gshard"},
      {"moe.gate=gshard", "moe.sample=gumbel"},
      {"moe.gate=sigmoid"},
      {"moe.gate=sigmoid", "moe.aux_coef=0.1", "moe.expert_groups=2"},
      {"moe.gate=expert_choice"},
      {"moe.gate=base", "moe.num_experts_per_tok=1"},
      {"moe.gate=base"},
      {"moe.gate=hash"},
      {"moe.gate=noisy_topk", "moe.z_coef=0.1"},
      {"moe.aux_scope=local"}}},
    {"drop",
     {{},
      {"moe.capacity=1.0"},
      {"moe.capacity=0.5", "moe.min_capacity=0", "moe.drop=rts"},
      {"moe.capacity=2.0", "moe.group=8"},
      {"moe.capacity=4.0", "moe.min_capacity=3"},
      {"moe.capacity=1.0", "moe.group=7"},
      {"moe.group=4"}}},
    {"fuse", {{}, {"schedule.fuse=yes"}, {"schedule.fuse=no"}}},
    {"chunks", {{}, {"schedule.chunks=2"}, {"schedule.chunks=3"}, {"schedule.chunks=2", "schedule.chunks_backward=4"}}},
    {"batch", {{}, {"train.micro_batch_size=1"}}},
};

// Drawn, one for each combination.
const std::vector<Overrides> kMemory = {
    {}, {"memory.zero=3"}, {"memory.recompute=full", "memory.keep_moves=none", "memory.zero=1"}};

size_t all_combinations() {
  size_t n = 1;
  for (const auto& [name, choices] : kChoices) n *= choices.size();
  return n;
}

Overrides combination(size_t index) {
  const Overrides& memory = kMemory[uniform_below(2, index, kMemory.size())];
  Overrides all = {"model.hidden_size=16", "model.num_hidden_layers=1",   "moe.num_experts=4", "train.batch_size=16",
                   "train.seq_length=8",   "moe.moe_intermediate_size=8", "train.eval_every=0"};
  for (const auto& [name, choices] : kChoices) {
    const Overrides& chosen = choices[index % choices.size()];
    all.insert(all.end(), chosen.begin(), chosen.end());
    index /= choices.size();
  }
  all.insert(all.end(), memory.begin(), memory.end());
  return all;
}

// Every config is read; of those that are legal, some that are drawn are written.
TEST(EveryCombination, is_refused_in_a_line_that_names_a_key_or_can_be_written) {
  int refused = 0, written = 0, read = 0;
  for (size_t i = 0; i < all_combinations(); ++i) {
    const Overrides overrides = combination(i);
    const auto what = [&] { return fmt::format("{}", fmt::join(overrides, " ")); };
    Config config;
    try {
      config = ready_config("", overrides);
    } catch (const InputError& e) {
      const std::string text = e.what();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      bool named = false;
      for (const char* section : {"moe.", "mesh.", "schedule.", "train.", "memory."})
        named = named || text.find(section) != std::string::npos;
      EXPECT_TRUE(named) << text;
      ++refused;
      continue;
    } catch (const std::exception& e) {
      FAIL() << what() << ": " << e.what();
    }
    ++read;
    if (uniform_below(1, i, 60) != 0) continue;
    ++written;
    const Mesh mesh({.ranks = static_cast<int>(num_ranks(config)),
                     .tp = static_cast<int>(config.mesh.tp),
                     .esp = static_cast<int>(config.mesh.esp),
                     .ep = static_cast<int>(config.mesh.ep)});
    try {
      build_step(mesh, model_sizes(config), optimizer(config),
                 {.micro_batches = static_cast<int>(micro_batches(config))});
    } catch (const std::exception& e) {
      FAIL() << what() << ": " << e.what();
    }
  }
  EXPECT_GT(written, 200);
  EXPECT_GT(refused, 1000);
  RecordProperty("read", read);
  RecordProperty("written", written);
}

}  // namespace
}  // namespace plait
