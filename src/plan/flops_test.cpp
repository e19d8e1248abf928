#include "plan/flops.h"

#include <gtest/gtest.h>

#include "plan/cost.h"
#include "plan/simulate.h"
#include "schedule/builder.h"

namespace plait {
namespace {

TEST(Flops, of_a_product_are_two_for_each_pair_that_is_multiplied) {
  Builder b{Mesh({.ranks = 2, .tp = 2, .esp = 2, .ep = 1})};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 10, stack_of(tp)}, {"D", 20}}),
                w = b.leaf(LeafKind::data, "w", {{"D", 20}, {"F", 30}});
  const ValueId y = b.add(Einsum{.out = {"T", "F"}}, {x, w});
  b.add(Scale{.factor = 2}, {y});
  const Schedule s = b.take();
  const Types types = check(s);
  const auto flops = [&](int step) { return traits_of(s.steps[step].op).cost.flops({s.mesh, types, s.steps[step]}); };
  EXPECT_EQ(flops(0), 2. * 5 * 20 * 30) << "of a rank's half of the rows";
  EXPECT_EQ(flops(1), 0);
  EXPECT_EQ(total_flops(s), 2. * 10 * 20 * 30);
}

}  // namespace
}  // namespace plait
