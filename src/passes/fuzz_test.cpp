#include "passes/testing/fuzz.h"

#include <gtest/gtest.h>

namespace plait::oracle {
namespace {

TEST(Fuzz, whatever_check_accepts_computes_what_one_rank_computes) {
  const FuzzReport report = fuzz(10000, 1);
  EXPECT_GT(report.right, 500);
  EXPECT_GT(report.refused, 5000);
  for (const std::string& wrong : report.wrong) ADD_FAILURE() << wrong;
}

}  // namespace
}  // namespace plait::oracle
