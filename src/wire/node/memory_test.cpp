// What processes of a node share, seen from one process that maps it twice.
#include "wire/node/memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace plait::wire {
namespace {

constexpr int64_t kAll = int64_t{4} << 20;

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

TEST(NodeMemory, is_the_same_where_another_reaches_it) {
  const auto memory = NodeMemory::make(kAll);
  ASSERT_TRUE(memory);
  const Mapping there = NodeMemory::reach(memory->address());
  ASSERT_TRUE(there.memory());
  ASSERT_NE(there.memory(), memory->memory());
  const at::Tensor first = memory->take(100), second = memory->take(3000);
  const auto place = memory->place(second);
  ASSERT_TRUE(place);
  bytes_of(second)[2999] = std::byte{7};
  EXPECT_EQ(there.memory()[*place + 2999], std::byte{7});
  there.memory()[*place] = std::byte{9};
  EXPECT_EQ(bytes_of(second)[0], std::byte{9});
  EXPECT_EQ(memory->place(second.narrow(0, 10, 5)), *place + 10);
}

TEST(NodeMemory, is_not_found_under_the_number_of_another_file) {
  const auto memory = NodeMemory::make(kAll), other = NodeMemory::make(kAll);
  NodeMemory::Address wrong = memory->address();
  wrong.file = other->address().file;
  EXPECT_FALSE(NodeMemory::reach(wrong).memory());
  wrong.file = 1 << 20;
  EXPECT_FALSE(NodeMemory::reach(wrong).memory());
}

TEST(NodeMemory, gives_from_elsewhere_what_it_has_no_room_for) {
  const auto memory = NodeMemory::make(kAll);
  at::Tensor most = memory->take(kAll - 4096);
  EXPECT_EQ(memory->place(most), 0);
  const at::Tensor more = memory->take(8192);
  EXPECT_FALSE(memory->place(more));
  std::memset(bytes_of(more), 1, 8192);
  most.reset();
  EXPECT_TRUE(memory->place(memory->take(kAll))) << "what was given back is joined";
}

TEST(NodeMemory, gives_pages_that_nobody_has_back_to_the_system) {
  const auto memory = NodeMemory::make(kAll);
  at::Tensor large = memory->take(kAll / 2);
  const at::Tensor small = memory->take(64);
  std::memset(bytes_of(large), 1, kAll / 2);
  std::memset(bytes_of(small), 2, 64);
  std::byte* const at = bytes_of(large);
  large.reset();
  EXPECT_EQ(at[kAll / 4], std::byte{0}) << "a new page";
  EXPECT_EQ(bytes_of(small)[63], std::byte{2});
}

TEST(NodeMemory, lives_as_long_as_what_was_taken) {
  at::Tensor taken = NodeMemory::make(kAll)->take(1000);
  std::memset(bytes_of(taken), 1, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(taken.data_ptr()) % 64, 0u);
}

TEST(NodeMemory, of_no_bytes_is_refused) { EXPECT_FALSE(NodeMemory::make(0)); }

TEST(NodeMemory, holds_no_part_of_a_tensor_that_is_larger_than_itself) {
  const auto large = NodeMemory::make(1 << 20), small = NodeMemory::make(4096);  // either may lie above the other
  ASSERT_TRUE(large && small);
  EXPECT_FALSE(small->place(large->take(1 << 20)));
  EXPECT_FALSE(large->place(small->take(4096)));
}

}  // namespace
}  // namespace plait::wire
