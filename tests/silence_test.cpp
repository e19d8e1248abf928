// A group of one never communicates: neither on one rank nor along an axis that has only one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/errors.h"
#include "corpus.h"
#include "train/loop.h"
#include "wire/record.h"

namespace plait {
namespace {

// A group of one whose collectives must not be called.
class Silent final : public wire::Group {
 public:
  explicit Silent(int rank) : ranks_{rank} {}
  int rank() const override { return 0; }
  const std::vector<int>& ranks() const override { return ranks_; }
  void all_reduce(std::span<const at::Tensor>) override { refuse(); }
  void all_gather(const at::Tensor&, const at::Tensor&) override { refuse(); }
  void reduce_scatter(const at::Tensor&, const at::Tensor&) override { refuse(); }
  void all_gather_rows(const at::Tensor&, const at::Tensor&, std::span<const int64_t>) override { refuse(); }
  void reduce_scatter_rows(const at::Tensor&, const at::Tensor&, std::span<const int64_t>) override { refuse(); }
  void all_to_all(const at::Tensor&, const at::Tensor&, std::span<const int64_t>, std::span<const int64_t>) override {
    refuse();
  }
  void broadcast(const at::Tensor&, int) override { refuse(); }
  void barrier() override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw ContractError("a collective in a group of one"); }
  std::vector<int> ranks_;
};

// Counts what goes through groups of several; a group of one is silent.
class Watched final : public wire::PassingWorld {
 public:
  Watched(wire::World& world, std::shared_ptr<wire::Traffic> traffic)
      : PassingWorld(world), traffic_(std::move(traffic)) {}
  std::shared_ptr<wire::Group> group(int rank, std::vector<int> members, wire::Caller caller) override {
    if (members.size() == 1) return std::make_shared<Silent>(rank);
    return wire::record(PassingWorld::group(rank, std::move(members), caller), traffic_);
  }

 private:
  std::shared_ptr<wire::Traffic> traffic_;
};

// What rank 0 sends in one step and one evaluation.
wire::Traffic traffic_of(const std::vector<std::string>& overrides) {
  const data::Corpus corpus = random_corpus(4000);
  std::vector<std::string> all = {"model.hidden_size=16", "model.num_hidden_layers=2", "model.intermediate_size=8",
                                  "train.seq_length=8", "train.eval_batches=1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Config config = ready_config("", all);
  wire::Traffic rank0;
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    const auto traffic = std::make_shared<wire::Traffic>();
    Watched watched(world, traffic);
    Trainer trainer(config, run_shape(config), corpus, {rank, &watched, at::kFloat});
    trainer.step(0, 1e-3);
    trainer.evaluate();
    if (rank == 0) rank0 = *traffic;
  });
  return rank0;
}

TEST(GroupsOfOne, send_nothing_in_any_family) {
  for (const char* family : {"ted", "dtd", "s1", "s2", "parm", "sharded"})
    for (const char* capacity : {"none", "4.0"}) {
      const std::vector<std::string> moe = {fmt::format("schedule.moe={}", family),
                                            fmt::format("moe.capacity={}", capacity)};
      const auto with = [&](std::vector<std::string> more) {
        more.insert(more.end(), moe.begin(), moe.end());
        return traffic_of(more);
      };
      EXPECT_EQ(with({}).total().calls, 0);
      const wire::Traffic tp = with({"mesh.tp=2"}), ep = with({"mesh.ep=2"}), dp = with({"mesh.dp=2"});
      EXPECT_EQ(tp[wire::Collective::all_to_all].calls, 0) << "without ep no row changes its rank";
      EXPECT_EQ(dp[wire::Collective::all_to_all].calls, 0);
      EXPECT_GT(ep[wire::Collective::all_to_all].calls, 0);
      EXPECT_EQ(ep[wire::Collective::all_gather].calls, 0) << "without tp nothing is gathered";
      EXPECT_EQ(ep[wire::Collective::reduce_scatter].calls, 0);
      EXPECT_GT(dp[wire::Collective::all_reduce].calls, 0);
    }
}

}  // namespace
}  // namespace plait
