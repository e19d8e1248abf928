#include "verify/verify_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"
#include "passes/differentiate.h"
#include "passes/order.h"
#include "passes/testing/families.h"
#include "schedule/text.h"
#include "verify/leaf_data.h"

namespace plait::oracle {
namespace {

std::string with_head(const std::string& lines) { return "plait schedule 1\nmesh ranks=4 tp=2 esp=2 ep=2\n" + lines; }

// The toy's mask is of real numbers, which its plain loops take.
Schedule with_a_mask_of_integers(Schedule s) {
  for (Leaf& leaf : s.leaves)
    if (s.names[leaf.value] == "mask") leaf.type.dtype = Dtype::integer;
  return s;
}

TEST(VerifySchedule, agrees_in_every_family_with_and_without_lanes) {
  for (Family family : kFamilies) {
    if (family == Family::parm) continue;
    const Schedule s = with_a_mask_of_integers(build({.family = family, .mesh = {4, 2, 2, 2}}).schedule);
    for (const auto lanes : {std::optional<NodeLanes>(), std::optional(NodeLanes{2})}) {
      const ScheduleReport report = verify_schedule(s, {.seed = 3, .lanes = lanes});
      EXPECT_TRUE(report.agrees()) << name(family) << ": " << report.largest();
      EXPECT_EQ(report.lines.size(), 1 + 5u);  // the loss; x0, W0, Wg, W1, W2
    }
  }
}

TEST(VerifySchedule, of_a_list_with_its_own_backward_pass_and_an_update_compares_these) {
  const Schedule s = parse_schedule(with_head(
      "leaf parameter %w : real [D=4]\nleaf data %x : side [T=8/dp.ep, D=4]\nleaf scalar %one : side []\n"
      "leaf seed %seed : real [] of %loss\n%e = enter(%w) dp.ep:I>R\n%p = einsum(%x, %e) out=T\n"
      "%q = einsum(%p, %p) out=-\n%loss = leave(%q) dp.ep:P>I\n%d_q = enter(%seed) dp.ep:I>R of %q\n"
      "%d_p = einsum(%d_q, %p) out=T of %p\n%d_e = einsum(%d_p, %x) out=D of %e\n%d_w = leave(%d_e) dp.ep:P>I of %w\n"
      "%new = sgd(%w, %d_w, %one, %one) weight_decay=0\noutputs %loss\n"));
  const ScheduleReport report = verify_schedule(s, {});
  ASSERT_EQ(report.lines.size(), 3u);
  EXPECT_EQ(report.lines[1].what, "gradient of %w");
  EXPECT_EQ(report.lines[2].what, "%w after the step");
  EXPECT_TRUE(report.agrees()) << report.largest();
}

// Each half of the tokens is numbered anew, so on four ranks other tokens share a draw than on one.
TEST(VerifySchedule, finds_what_depends_on_the_layout_though_it_types) {
  const Schedule s = parse_schedule(
      with_head("leaf parameter %x : real [T=16/dp.ep, D=4]\nleaf scalar %key : int []\n"
                "leaf data %c : side [T=16/dp.ep, D=4]\n%a, %b = split(%x) dim=T id=s parts=2\n"
                "%ja = jitter(%a, %key) amount=0.5 stream=0\n%jb = jitter(%b, %key) amount=0.5 stream=0\n"
                "%y = concat(%ja, %jb) dim=T id=s\n%dot = einsum(%y, %c) out=-\n%loss = leave(%dot) dp.ep:P>I\n"
                "outputs %loss\n"));
  EXPECT_FALSE(verify_schedule(s, {}).agrees());
}

TEST(VerifySchedule, says_what_it_cannot_run) {
  const auto says = [](const std::string& lines) {
    return refusal<InputError>([&] { verify_schedule(parse_schedule(with_head(lines)), {}); });
  };
  EXPECT_EQ(says("leaf parameter %x : real [T=4]\n"), "nothing to compare with one rank: add a line outputs %..");
  EXPECT_EQ(says("leaf data %x : int [T=4]\n%y = scale(%x) factor=2\noutputs %y\n"),
            "%x, which scale -> %y reads: nothing says which integers it may hold");
  EXPECT_EQ(says("leaf data %x : side [T=4]\nleaf parameter %w : real [V=4, D=2]\n%y = embed(%w, %x)\noutputs %y\n"),
            "leaf %x: embed -> %y reads it as integers: let its type be int");
  EXPECT_EQ(says("leaf data %t : table<r> [E=4]\nleaf data %x : side []\noutputs %x\n"),
            "leaf %t: tables and places are made by the list, from a count or arrange");
}

TEST(ScheduleReport, takes_what_is_not_a_number_for_different) {
  EXPECT_TRUE((ScheduleReport{{{"a", 1e-10}}}.agrees()));
  EXPECT_FALSE((ScheduleReport{{{"a", 1e-10}, {"b", 1e-8}}}.agrees()));
  EXPECT_FALSE((ScheduleReport{{{"a", INFINITY}}}.agrees()));
}

TEST(LeafData, draws_integers_that_their_readers_take) {
  const Schedule s = parse_schedule(
      with_head("leaf parameter %table : real [V=6, D=4]\nleaf parameter %gate : real [E=4, D=4]\n"
                "leaf data %ids : int [T=64]\nleaf data %mask : int [T=64]\nleaf state %m : side [D=4]\n"
                "leaf scalar %key : int []\n%x = embed(%table, %ids)\n%z = einsum(%x, %gate) out=T,E\n"
                "%w, %i, %s = route(%z, %mask, %key) gate=switch sample=gumbel stream=1 normalize=none drop=none "
                "top_k=1 capacity=0 group=0\n"));
  const LeafData data(s, 1);
  EXPECT_EQ(data.whole("ids").min().item<int64_t>(), 0);
  EXPECT_EQ(data.whole("ids").max().item<int64_t>(), 5);
  EXPECT_TRUE(data.whole("ids").equal(data.whole("ids")));
  EXPECT_FALSE(data.whole("ids").equal(data.whole("ids", 1)));
  EXPECT_FALSE(data.whole("ids").equal(LeafData(s, 2).whole("ids")));
  EXPECT_EQ(data.whole("mask").min().item<int64_t>(), 1);
  EXPECT_EQ(data.whole("key").item<int64_t>(), 1);
  EXPECT_EQ(data.whole("m").abs().max().item<double>(), 0);
  EXPECT_NEAR(data.whole("table").square().mean().item<double>(), 0.25, 0.15);
}

}  // namespace
}  // namespace plait::oracle
