#include "run/lanes.h"

#include <gtest/gtest.h>

#include <system_error>

#include "base/testing/few_addresses.h"

namespace plait {
namespace {

TEST(LaneThreads, end_the_one_that_started_when_the_system_has_no_thread_for_the_next) {
  const auto make = [] {
    try {
      LaneThreads({.lanes = {Lane::intra, Lane::inter}, .waits = {{}, {}}});
    } catch (const std::system_error&) {
      return 0;
    }
    return 1;
  };
  EXPECT_EQ(code_with_addresses(int64_t{12} << 20, make), 0);
  EXPECT_EQ(code_with_addresses(int64_t{400} << 20, make), 1) << "with room for both";
}

}  // namespace
}  // namespace plait
