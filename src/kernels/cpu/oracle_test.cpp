#include "kernels/testing/oracle.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace plait::kernels {
namespace {

TEST(Oracle, refuses_a_wrong_gradient) {
  at::Tensor x = numbers({2}, {1, 2}, at::kDouble);
  auto square = [&] { return inner(x, x); };
  expect_gradient(x, numbers({2}, {2, 4}, at::kDouble), square);
  ::testing::TestPartResultArray failures;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    expect_gradient(x, numbers({2}, {2, 4.1}, at::kDouble), square);
  }
  EXPECT_EQ(failures.size(), 1);
}

}  // namespace
}  // namespace plait::kernels
