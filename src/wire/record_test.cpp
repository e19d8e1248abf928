#include "wire/record.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "wire/ranks.h"

namespace plait::wire {
namespace {

at::Tensor zeros(at::IntArrayRef sizes) { return at::zeros(sizes, at::kFloat); }

TEST(Record, counts_calls_and_bytes_by_kind_and_passes_the_values_on) {
  run_ranks({.ranks = 4}, [](int rank, World& world) {
    const auto traffic = std::make_shared<Traffic>();
    const auto group = record(world.group(rank, {0, 1, 2, 3}), traffic);
    EXPECT_EQ(group->rank(), rank);
    const auto x = at::zeros({10}, at::kFloat).fill_(1.5);
    group->all_reduce({{x, zeros({6})}});
    EXPECT_EQ(x.data_ptr<float>()[9], 6.0f);
    group->all_reduce({{x}});
    group->all_gather(zeros({3}), zeros({4, 3}));
    group->reduce_scatter(zeros({4, 3}), zeros({3}));
    const std::vector<int64_t> rows{0, 1, 2, 3};  // to each; from each: its column of the same table
    group->all_to_all(zeros({6, 5}), zeros({4 * rank, 5}), rows, std::vector<int64_t>(4, rank));
    group->broadcast(zeros({8}), 2);
    group->barrier();

    EXPECT_EQ((*traffic)[Collective::all_reduce].calls, 2);
    EXPECT_EQ((*traffic)[Collective::all_reduce].bytes, 2 * (64 + 40) * 3 / 4);
    EXPECT_EQ((*traffic)[Collective::all_gather].bytes, 48 * 3 / 4);
    EXPECT_EQ((*traffic)[Collective::reduce_scatter].bytes, 48 * 3 / 4);
    EXPECT_EQ((*traffic)[Collective::all_to_all].bytes, (6 - rank) * 20);
    EXPECT_EQ((*traffic)[Collective::broadcast].bytes, 32 * 3 / 4);
    EXPECT_EQ((*traffic)[Collective::barrier].calls, 1);
    EXPECT_EQ(traffic->total().calls, 7);
  });
}

TEST(Record, counts_nothing_in_a_group_of_one) {
  const auto traffic = std::make_shared<Traffic>();
  const auto group = record(alone(0), traffic);
  group->all_reduce({{zeros({4})}});
  group->barrier();
  group->all_gather(zeros({4}), zeros({1, 4}));
  EXPECT_EQ(traffic->total().calls, 0);
}

}  // namespace
}  // namespace plait::wire
