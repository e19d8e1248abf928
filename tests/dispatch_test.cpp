// However rows cross the network, the numbers are those of one rank; and the bytes between nodes are those of the way.
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>

#include "choices.h"
#include "corpus.h"
#include "train/loop.h"
#include "verify/verify.h"
#include "wire/slow.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

// Eight ranks in two nodes, all of them in one group of ep x esp.
Config two_nodes(const std::string& family, const Overrides& more) {
  Overrides all = {"model.hidden_size=16",
                   "model.num_hidden_layers=2",
                   "model.intermediate_size=32",
                   "moe.every=2",
                   "moe.num_experts=8",
                   "moe.moe_intermediate_size=16",
                   "train.batch_size=16",
                   "train.seq_length=8",
                   "mesh.tp=2",
                   "mesh.ep=4",
                   "mesh.node=4",
                   "schedule.moe=" + family};
  all.insert(all.end(), more.begin(), more.end());
  return ready_config("", all);
}

void expect_agrees(const std::string& family, const Overrides& more) {
  EXPECT_EQ(near_choice(two_nodes(family, more), random_corpus()), "");
  const VerifyReport report = verify(two_nodes(family, more), random_corpus());
  EXPECT_TRUE(report.agrees()) << family << " " << fmt::format("{}", fmt::join(more, " ")) << ": " << report.largest();
}

TEST(Dispatch, of_a_token_once_to_each_node_is_exact) {
  for (const char* family : {"ted", "s1", "sharded"})
    for (int k : {2, 4})
      expect_agrees(family,
                    {"schedule.dispatch=node", "moe.order=topk_first", fmt::format("moe.num_experts_per_tok={}", k)});
  expect_agrees("sharded", {"schedule.dispatch=node", "schedule.chunks=2", "schedule.chunks_backward=4"});
  expect_agrees("s1", {"schedule.dispatch=node", "mesh.node=2", "train.micro_batch_size=2", "schedule.lanes=true"});
  expect_agrees("s2", {"schedule.dispatch=node", "schedule.slice=tokens"});
  expect_agrees("sharded", {"schedule.dispatch=node", "memory.recompute=full", "memory.zero=3"});
  expect_agrees("ted", {"schedule.dispatch=node", "schedule.chunks=2", "memory.recompute=selective"});
}

TEST(Dispatch, by_levels_is_exact) {
  for (const char* family : {"ted", "s1", "s2", "parm", "sharded"}) expect_agrees(family, {"schedule.dispatch=levels"});
  expect_agrees("s2", {"schedule.dispatch=levels", "moe.capacity=1"});
}

TEST(Dispatch, of_padded_rows_is_exact) {
  for (const char* family : {"ted", "dtd", "s1", "s2", "parm", "sharded"})
    expect_agrees(family, {"schedule.rows=padded"});
  expect_agrees("sharded", {"schedule.rows=padded", "schedule.chunks=2", "mesh.ep=2"});
}

TEST(Dispatch, of_sliced_tokens_is_exact_also_behind_a_gate_that_couples_them) {
  expect_agrees("s2", {"schedule.slice=tokens", "schedule.chunks=2"});
  expect_agrees("s2", {"schedule.slice=tokens", "moe.gate=base", "moe.num_experts_per_tok=1"});
}

TEST(Dispatch, in_other_numbers_of_chunks_is_exact_in_every_family) {
  for (const char* family : {"ted", "dtd", "s1", "s2", "parm", "sharded"}) {
    expect_agrees(family, {"schedule.chunks=1", "schedule.chunks_backward=4"});
    expect_agrees(family, {"schedule.chunks=4", "schedule.chunks_backward=2"});
  }
  expect_agrees("s2", {"schedule.chunks=2", "schedule.chunks_backward=4", "moe.capacity=1"});
}

// One step of training on all ranks: its losses and updated parameters, and the messages and bytes between nodes.
struct Trained {
  std::map<std::string, at::Tensor> parameters;
  double bytes_between_nodes = 0;
  int messages = 0;  // of rank 0
};

Trained train(const Config& config) {
  const data::Corpus corpus = random_corpus();
  Trained result;
  std::mutex mutex;
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    wire::SlowWorld counting(world, [&](const std::vector<int>& ranks, double bytes) {
      const std::lock_guard lock(mutex);
      if (ranks.front() / config.mesh.node != ranks.back() / config.mesh.node && ranks.size() == 2)
        result.bytes_between_nodes += bytes;
      if (rank == 0) ++result.messages;
      return wire::Seconds(0);
    });
    Trainer trainer(config, run_shape(config), corpus, {rank, &counting, at::kFloat});
    trainer.step(0, 1e-2);
    for (const Parameter& p : trainer.schedule().parameters) {
      const at::Tensor whole = trainer.whole(p.name);
      if (rank == 0) result.parameters[p.name] = whole.clone();
    }
  });
  return result;
}

TEST(Dispatch, of_the_same_parts_in_other_messages_gives_the_same_bits) {
  const Trained four = train(two_nodes("sharded", {"schedule.chunks=4"}));
  for (const auto& [forward, backward] : {std::pair{1, 4}, {4, 1}, {2, 4}}) {
    const Trained other = train(two_nodes(
        "sharded", {fmt::format("schedule.chunks={}", forward), fmt::format("schedule.chunks_backward={}", backward)}));
    for (const auto& [name, whole] : four.parameters) EXPECT_TRUE(at::equal(whole, other.parameters.at(name))) << name;
    // Two moves of rows there and two back, in each pass.
    EXPECT_EQ(four.messages - other.messages, 4 * (4 - forward) + 4 * (4 - backward));
  }
}

TEST(Dispatch, of_a_token_once_to_each_node_sends_less_between_nodes) {
  const Overrides direct = {"moe.num_experts_per_tok=4", "schedule.dispatch=levels", "model.hidden_size=64"};
  Overrides once = direct;
  once[1] = "schedule.dispatch=node";
  const double by_routes = train(two_nodes("sharded", direct)).bytes_between_nodes;
  const double by_nodes = train(two_nodes("sharded", once)).bytes_between_nodes;
  EXPECT_LT(by_nodes, 0.75 * by_routes);
  EXPECT_GT(by_nodes, 0.2 * by_routes);
}

}  // namespace
}  // namespace plait
