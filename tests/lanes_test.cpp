// Messages on lanes of their own: the same bits whatever lane is late, no deadlock, and a failure on any lane ends the
// step.
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "corpus.h"
#include "train/loop.h"
#include "wire/slow.h"

namespace plait {
namespace {

Config four_ranks(const std::string& family, int chunks, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"model.hidden_size=16",
                                        "model.num_hidden_layers=2",
                                        "moe.num_experts=4",
                                        "moe.moe_intermediate_size=16",
                                        "train.batch_size=8",
                                        "train.seq_length=8",
                                        "train.micro_batch_size=2",
                                        "mesh.tp=2",
                                        "mesh.ep=2",
                                        "schedule.moe=" + family,
                                        fmt::format("schedule.chunks={}", chunks)};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return ready_config("", overrides);
}

using Parameters = std::map<std::string, at::Tensor>;

// Two steps; late(rank, call) is how long a message or a step of computing is held up.
Parameters train_with(const Config& config, const std::function<double(int rank, uint64_t call)>& late) {
  const data::Corpus corpus = random_corpus();
  return wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    uint64_t messages = 0, steps = 0;
    const auto pause = [&](uint64_t call) {
      if (const double seconds = late(rank, call); seconds > 0) std::this_thread::sleep_for(wire::Seconds(seconds));
    };
    std::mutex mutex;
    wire::SlowWorld slow(world, [&](const std::vector<int>&, double) {
      const std::lock_guard lock(mutex);
      return wire::Seconds(late(rank, 2 * messages++));
    });
    Trainer trainer(config, run_shape(config), corpus, {rank, &slow, at::kFloat});
    trainer.observe([&](const Span& span) {
      if (span.lane == Lane::compute) pause(2 * steps++ + 1);
    });
    for (int step = 0; step < 2; ++step) trainer.step(step, 1e-2);
    Parameters result;
    for (const Parameter& p : trainer.schedule().parameters) result[p.name] = trainer.whole(p.name).clone();
    return result;
  });
}

void expect_equal(const Parameters& a, const Parameters& b) {
  for (const auto& [name, tensor] : a) EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
}

double never(int, uint64_t) { return 0; }

// Messages in lanes of their own, nodes of this many ranks.
std::vector<std::string> on_lanes(int node) { return {"schedule.lanes=true", fmt::format("mesh.node={}", node)}; }

TEST(Lanes, give_the_same_bits_as_one_thread) {
  for (const char* family : {"ted", "dtd", "s1", "s2", "sharded"}) {
    for (int chunks : {1, 3}) {
      const Parameters plain = train_with(four_ranks(family, chunks), never);
      for (int node : {1, 2, 4}) expect_equal(train_with(four_ranks(family, chunks, on_lanes(node)), never), plain);
    }
  }
}

// Two micro-batches as written; one in the order that overlaps, its gradients in buckets.
TEST(Lanes, give_the_same_bits_whatever_is_late) {
  const std::string whole = "train.micro_batch_size=4";
  for (const char* family : {"s2", "sharded"}) {
    const bool ordered = std::string(family) == "sharded";
    const Parameters plain = train_with(ordered ? four_ranks(family, 2, {whole}) : four_ranks(family, 2), never);
    std::vector<std::string> more = on_lanes(2);
    if (ordered) more.insert(more.end(), {whole, "schedule.order=overlap", "schedule.bucket=0.001"});
    const Config config = four_ranks(family, 2, more);
    for (uint64_t run = 0; run < 50; ++run) {
      const uint64_t key = random_key(run, family);
      const auto sometimes = [key](int rank, uint64_t call) {
        const double u = uniform(key, call * 4 + static_cast<uint64_t>(rank));
        return u > 0.98 ? 2e-3 * u : 0.0;
      };
      expect_equal(train_with(config, sometimes), plain);
    }
  }
}

TEST(Lanes, end_on_all_ranks_when_one_fails) {
  const Config config = four_ranks("sharded", 2, on_lanes(2));
  const auto at_rank_2 = [](int rank, uint64_t call) -> double {
    if (rank == 2 && call == 41) throw std::runtime_error("struck while computing");
    return 0;
  };
  try {
    train_with(config, at_rank_2);
    FAIL() << "ended well";
  } catch (const wire::RankFailure& failure) {
    EXPECT_EQ(failure.rank, 2);
    EXPECT_NE(std::string(failure.what()).find("struck while computing"), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace plait
