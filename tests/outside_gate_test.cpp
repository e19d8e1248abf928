// A gate from outside src/ (extension/softplus.cpp): all that Plait does with a gate it does with this one.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "extension/extension.h"
#include "families/all.h"
#include "gates/all/kernel.h"
#include "gates/all/record.h"
#include "kernels/testing/oracle.h"
#include "one_step.h"
#include "schedule/builder.h"
#include "schedule/testing/interpret.h"
#include "schedule/text.h"

namespace plait {
namespace {

constexpr int64_t kTokens = 8, kExperts = 4;

Route over_capacity(Drop drop) {
  return {.gate = &extension::softplus_route, .drop = drop, .top_k = 2, .capacity = 3, .group = 4};
}

kernels::RouteOptions options_of(const Route& r) {
  return {.gate = r.gate, .drop = r.drop, .top_k = r.top_k, .capacity = r.capacity, .group = r.group};
}

at::Tensor tokens_mask() { return kernels::integers({kTokens}, {1, 1, 1, 0, 1, 1, 1, 1}); }

kernels::Routes routed(const at::Tensor& logits, const Route& route) {
  const std::vector<int64_t> shape = {kTokens, route.top_k};
  kernels::Routes out{kernels::stale(shape, at::kDouble), kernels::stale(shape, at::kLong),
                      kernels::stale(shape, at::kLong)};
  kernels::route(logits, tokens_mask(), options_of(route), out);
  return out;
}

oracle::Array array(const at::Tensor& x) {
  const at::Tensor numbers = x.to(at::kDouble).contiguous();
  const double* p = numbers.const_data_ptr<double>();
  return {x.sizes().vec(), {p, p + x.numel()}};
}

struct List {
  Schedule schedule;
  std::vector<ValueId> routes;
  oracle::Feed feed;
};

List list_of(const Route& route, const at::Tensor& logits) {
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::parameter, "logits", std::vector<Dim>{{"T", kTokens}, {"E", kExperts}}),
                mask = b.leaf(LeafKind::data, "mask", std::vector<Dim>{{"T", kTokens}});
  List list{.routes = b.add_all(route, {x, mask}, "route"),
            .feed = {{x, {array(logits)}}, {mask, {array(tokens_mask())}}}};
  list.schedule = b.take();
  return list;
}

TEST(OutsideGate, computes_what_its_plain_loop_computes) {
  const at::Tensor logits = kernels::golden_logits(at::kDouble);
  for (Drop drop : {Drop::probs, Drop::position}) {
    const kernels::Routes mine = routed(logits, over_capacity(drop));
    const List list = list_of(over_capacity(drop), logits);
    const oracle::Execution run = interpret(list.schedule, list.feed);
    const at::Tensor* results[] = {&mine.weight_TK, &mine.idx_TK, &mine.slot_TK};
    for (size_t i = 0; i < 3; ++i) {
      const oracle::Array& plain = run.values[list.routes[i]][0];
      for (int64_t r = 0; r < plain.size(); ++r)
        EXPECT_NEAR(array(*results[i])[r], plain[r], 1e-12) << "result " << i << ", route " << r;
    }
    EXPECT_TRUE(mine.slot_TK.eq(-1).logical_and(mine.idx_TK.ge(0)).any().item<bool>()) << "nothing was dropped";
  }
}

TEST(OutsideGate, has_the_gradient_of_differences) {
  at::Tensor logits = kernels::golden_logits(at::kDouble), dlogits = kernels::stale({kTokens, kExperts}, at::kDouble);
  const Route route = over_capacity(Drop::probs);
  const at::Tensor w = kernels::random({kTokens, route.top_k}, at::kDouble);
  const kernels::Routes routes = routed(logits, route);
  kernels::route_grad({logits, routes.idx_TK, routes.slot_TK, w}, options_of(route), dlogits);
  EXPECT_GT(dlogits.abs().max().item<double>(), 1e-3);
  kernels::expect_gradient(logits, dlogits, [&] { return kernels::inner(routed(logits, route).weight_TK, w); });
}

TEST(OutsideGate, is_named_in_lists_that_are_read_back_by_who_knows_it) {
  const Schedule list = list_of(over_capacity(Drop::probs), kernels::golden_logits()).schedule;
  const std::string text = print(list);
  EXPECT_NE(text.find("gate=softplus"), std::string::npos) << text;
  Gates gates = built_in_gates();
  gates.push_back(&extension::softplus);
  EXPECT_EQ(parse_schedule(text, "schedule text", {.gates = gates}).steps, list.steps);
  EXPECT_THROW(parse_schedule(text), InputError);
}

TEST(OutsideGate, trains_on_four_ranks_as_on_one) {
  for (const FamilySpec* family : {&families::ted, &families::dtd, &families::s1, &families::s2, &families::sharded}) {
    ModelSizes sizes = small_sizes();
    sizes.gate = &extension::softplus;
    sizes.family = family;
    sizes.aux_coef = 0.3;
    sizes.z_coef = 0.1;
    StepCase c{.sizes = sizes, .parameters = random_parameters(sizes), .micro = {random_tokens(sizes)}};
    const StepOutcome one = run_steps(c);
    c.mesh = {.ranks = 4, .tp = 2, .esp = 2, .ep = 2};
    const StepOutcome four = run_steps(c);
    EXPECT_NEAR(four.nll[0], one.nll[0], 1e-12);
    EXPECT_NEAR(four.aux, one.aux, 1e-12);
    EXPECT_EQ(four.chosen, one.chosen);
    EXPECT_LT(largest_difference(four.gradients, one.gradients), 1e-10);
    EXPECT_TRUE(four.replicas.empty());
  }
}

}  // namespace
}  // namespace plait
