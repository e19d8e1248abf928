// All tests of this program run in guarded memory.
#include "kernels/testing/guarded.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <vector>

namespace plait {
namespace {

const bool kGuarded = guard_memory();

// Two of each: one ends at a page without access, one begins behind one.
template <class Make, class Touch>
void expect_death(Make make, Touch touch) {
  for (int turn = 0; turn < 2; ++turn)
    EXPECT_DEATH(
        {
          for (int others = 0; others < turn; ++others) make();
          touch(make());
        },
        "guarded memory: something .*beyond an end");
}

// As a kernel does, of whose sizes the compiler knows nothing.
template <class T>
[[gnu::noinline]] void write(T* x, int64_t at) {
  x[at] = 1;
}

TEST(GuardedMemory, ends_who_writes_one_beyond_an_end) {
  if (!kGuarded) return;  // a sanitizer looks
  const auto tensor = [] { return at::empty({3, 5}, at::kFloat); };
  const auto vector = [] { return std::vector<double>(7); };
  for (int64_t at : {-1, 15}) expect_death(tensor, [at](const at::Tensor& x) { write(x.data_ptr<float>(), at); });
  for (int64_t at : {-1, 7}) expect_death(vector, [at](std::vector<double> x) { write(x.data(), at); });
}

TEST(GuardedMemory, ends_who_reads_one_beyond_the_end_of_every_second_tensor) {
  if (!kGuarded) return;
  const auto read = [](int64_t at) {
    const at::Tensor a = at::empty({3}, at::kDouble), b = at::empty({3}, at::kDouble);
    const volatile double sum = a.data_ptr<double>()[at] + b.data_ptr<double>()[at];
    return sum;
  };
  EXPECT_DEATH(read(3), "guarded memory");
  EXPECT_DEATH(read(-1), "guarded memory");
}

TEST(GuardedMemory, is_touched_by_nobody_who_stays_within) {
  for (int64_t size : {1, 2, 7, 512, 513, 5000}) {
    std::vector<double> x(static_cast<size_t>(size));
    const at::Tensor y = at::empty({size}, at::kDouble);
    for (int64_t i = 0; i < size; ++i) x[static_cast<size_t>(i)] = y.data_ptr<double>()[i] = static_cast<double>(i);
    EXPECT_EQ(x.back(), y.data_ptr<double>()[size - 1]);
  }
}

}  // namespace
}  // namespace plait
