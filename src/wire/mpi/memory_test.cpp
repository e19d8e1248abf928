// That processes of one node reach each other's memory. As threads there is none to reach.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "launch/launch.h"
#include "wire/mpi/runtime.h"
#include "wire/ranks.h"

namespace plait::wire {
namespace {

// Whether this system lets a process open such memory at all.
bool can_be_reached() {
  const auto memory = NodeMemory::make(1 << 20);
  return memory && NodeMemory::reach(memory->address()).memory();
}

void expect_shared(int rank, World& world) {
  const MpiRuntime& mpi = MpiRuntime::get();
  const auto group = everyone(world, rank);
  const at::Tensor mine = world.memory(int64_t{2} << 20);
  mine.fill_(rank + 1);
  ASSERT_EQ(mpi.memory() != nullptr, can_be_reached()) << "all messages would go through slots";
  if (!mpi.memory()) return;
  const auto place = mpi.memory()->place(mine);
  ASSERT_TRUE(place);
  const at::Tensor places = at::empty({world.size()}, at::kLong);
  group->all_gather(at::full({1}, *place, at::kLong), places);
  for (int r = 0; r < world.size(); ++r) {
    const std::byte* theirs = mpi.memory_of(r) + places.data_ptr<int64_t>()[r];
    EXPECT_EQ(theirs[0], std::byte(r + 1));
    EXPECT_EQ(theirs[(2 << 20) - 1], std::byte(r + 1));
  }
  group->barrier();
}

TEST(MpiMemory, of_every_rank_of_a_node_is_reached_by_all) {
  if (const int ranks = this_launch().ranks; ranks > 1)
    run_ranks({.ranks = ranks, .timeout = Seconds(60)}, expect_shared);
}

}  // namespace
}  // namespace plait::wire
