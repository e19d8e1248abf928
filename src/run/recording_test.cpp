// What ranks record, as threads into one recording and as processes into their own, which they share.
#include "run/recording.h"

#include <gtest/gtest.h>

#include "kernels/testing/guarded.h"
#include "schedule/text.h"
#include "wire/ranks.h"

namespace plait {
namespace {

[[maybe_unused]] const bool kGuarded = guard_memory();  // in all tests of this program

Schedule a_list() {
  return parse_schedule(
      "plait schedule 1\nmesh ranks=2 tp=1 esp=1 ep=2\nleaf data %x : side [T=4/dp.ep, D=2]\n"
      "%y = scale(%x) factor=2\n%z = einsum(%y, %x) out=-\n%sum = leave(%z) dp.ep:P>I\noutputs %sum\n");
}

// A world of threads that says of each that it is a process.
struct Apart final : wire::PassingWorld {
  using PassingWorld::PassingWorld;
  int ranks_here() const override { return 1; }
};

TEST(Recording, that_processes_share_is_what_threads_record_together) {
  const Schedule schedule = a_list();
  Recording together(schedule);
  std::vector<Recording> apart(2, Recording(schedule));
  const auto begin = std::chrono::steady_clock::now();
  wire::run_ranks({.ranks = 2}, [&](int rank, wire::World& world) {
    for (int i = 0; i < static_cast<int>(schedule.steps.size()); ++i) {
      const auto start = begin + std::chrono::milliseconds(10 * i + rank);
      const Span span{i, Lane::compute, start, start + std::chrono::milliseconds(1 + i)};
      together.observer(rank)(span);
      apart[rank].observer(rank)(span);
    }
    Apart alone(world);
    apart[rank].share(rank, alone);
  });
  const Timeline one = together.timeline();
  ASSERT_EQ(one.spans.size(), 2 * schedule.steps.size());
  for (const Recording& recording : apart) {
    const Timeline other = recording.timeline();
    ASSERT_EQ(other.spans.size(), one.spans.size());
    for (size_t i = 0; i < one.spans.size(); ++i) {
      EXPECT_EQ(other.spans[i].rank, one.spans[i].rank);
      EXPECT_EQ(other.spans[i].step, one.spans[i].step);
      EXPECT_EQ(other.spans[i].place, one.spans[i].place);
      EXPECT_EQ(other.spans[i].lane, one.spans[i].lane);
      EXPECT_NEAR(other.spans[i].end - other.spans[i].start, one.spans[i].end - one.spans[i].start, 1e-6);
    }
  }
}

}  // namespace
}  // namespace plait
