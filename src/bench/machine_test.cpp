#include "bench/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "launch/launch.h"
#include "machine/machine_file.h"
#include "wire/ranks.h"

namespace plait {
namespace {

MachineRequest tiny(int per_node) {
  const Repeats twice{.seconds = 0, .least = 2, .most = 2};
  return {.messages = {.per_node = per_node, .least = 256, .most = 1024, .repeats = twice},
          .compute = {.rows = {1, 3}, .matrices = {{8, 16}, {16, 8}}, .floats = 4096, .repeats = twice},
          .copies = {4096}};
}

// Threads, or the processes that a launcher started; those run the tests of their number of ranks.
bool runs_here(int ranks) { return !this_launch().launched() || this_launch().ranks == ranks; }

MachineBench bench_on(int ranks, const MachineRequest& request) {
  return wire::run_ranks({.ranks = ranks, .timeout = wire::Seconds(20)},
                         [&](int rank, wire::World& world) { return bench_machine(rank, world, request); });
}

TEST(BenchMachine, holds_every_group_and_reads_back_from_its_file) {
  for (int ranks : {2, 4}) {
    if (!runs_here(ranks)) continue;
    const MachineBench bench = bench_on(ranks, tiny(2));
    Machine machine = fitted(bench.measured);
    machine.name = "test";
    const Machine read = parse_machine(to_toml(machine), "machine.toml");
    EXPECT_EQ(read, machine);
    EXPECT_EQ(read.groups.size(), group_shapes(ranks).size());
    for (const Digits& digits : group_shapes(ranks))
      for (Collective kind :
           {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all}) {
        const MessageCost* cost = find_cost(read, digits, kind);
        ASSERT_TRUE(cost) << ranks << ": " << text(digits);
        EXPECT_TRUE(cost->known()) << ranks << ": " << text(digits);
      }
    EXPECT_EQ(read.levels.size(), ranks == 2 ? 1u : 2u);
    EXPECT_EQ(read.pairs.size(), ranks == 2 ? 0u : 2u);
    EXPECT_EQ(read.products.size(), 8u);
    for (const ProductPoint& p : read.products) EXPECT_GT(p.flops, 0);
    EXPECT_GT(read.memory_bytes, 0);
    EXPECT_GT(read.start, 0);
    EXPECT_EQ(bench.copies.size(), 3u);
  }
}

// What a rank sends, by the ring and pairwise algorithms, of messages of 256, 512 and 1024 bytes.
TEST(BenchMachine, counts_the_bytes_that_one_rank_sends) {
  if (!runs_here(4)) GTEST_SKIP() << "runs on 4 ranks";
  const Measured measured = bench_on(4, tiny(4)).measured;
  const auto bytes = [&](const Digits& digits, Collective kind) {
    std::vector<double> all;
    const MeasuredGroup& group = *std::ranges::find(measured.groups, digits, &MeasuredGroup::digits);
    for (const MessageSample& s : group.samples[static_cast<size_t>(kind)]) all.push_back(s.bytes);
    return all;
  };
  EXPECT_EQ(bytes({{4, 1}}, Collective::all_gather), (std::vector<double>{192, 384, 768}));
  EXPECT_EQ(bytes({{4, 1}}, Collective::all_reduce), (std::vector<double>{384, 768, 1536}));
  EXPECT_EQ(bytes({{2, 2}}, Collective::all_to_all), (std::vector<double>{128, 256, 512}));
}

TEST(BenchMachine, tells_rank_0_of_every_part_in_order) {
  if (!runs_here(4)) GTEST_SKIP() << "runs on 4 ranks";
  MachineRequest request = tiny(2);
  std::vector<int> seen;
  int parts = 0;
  request.progress = [&](const std::string& what, int done, int all) {
    seen.push_back(done);
    parts = all;
    EXPECT_FALSE(what.empty());
  };
  bench_on(4, request);
  if (!this_launch().first()) {
    EXPECT_TRUE(seen.empty());
    return;
  }
  EXPECT_EQ(static_cast<int>(seen.size()), parts);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.back(), parts - 1);
}

TEST(GroupClock, gives_all_ranks_the_time_of_the_slowest) {
  if (!runs_here(4)) GTEST_SKIP() << "runs on 4 ranks";
  wire::run_ranks({.ranks = 4, .timeout = wire::Seconds(20)}, [&](int rank, wire::World& world) {
    GroupClock clock(rank, world);
    EXPECT_EQ(clock.agreed(rank == 1 ? 7 : rank), 7);
    const double seconds = clock.seconds(2, [&] {
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    EXPECT_GE(seconds, 0.02);
    EXPECT_EQ(clock.agreed(seconds), seconds);
    EXPECT_EQ(clock.agreed(-seconds), -seconds);
  });
}

TEST(GroupClock, takes_works_in_turns) {
  wire::run_ranks({.ranks = 1}, [&](int rank, wire::World& world) {
    GroupClock clock(rank, world);
    std::string order;
    const auto slow = [&](char c) {
      order += c;
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // longer than a row, so one call each
    };
    const auto times = clock.in_turns({[&] { slow('a'); }, [&] { slow('b'); }}, {.seconds = 0, .least = 2, .most = 2});
    EXPECT_EQ(order, "ababab");
    EXPECT_EQ(times[0].size(), 2u);
  });
}

TEST(AtOnce, ends_the_other_when_one_throws) {
  const auto failing = [](int rank, wire::World& world) {
    const auto pair = world.group(rank, {0, 1}), other = world.group(rank, {0, 1});
    at_once(
        world,
        [&] {
          if (rank == 0) throw std::runtime_error("a cut cable");
          pair->barrier();
        },
        [&] { other->barrier(), other->barrier(); });
  };
  try {
    wire::run_ranks({.ranks = 2, .timeout = wire::Seconds(20)}, failing);
    FAIL() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("a cut cable"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plait
