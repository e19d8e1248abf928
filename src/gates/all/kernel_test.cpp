#include "gates/all/kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "gates/switch/record.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

Routes routed(const at::Tensor& logits, const RouteOptions& options, const at::Tensor& mask = {}) {
  int64_t tokens = logits.size(0), k = options.top_k;
  Routes out{stale({tokens, k}, logits.scalar_type()), stale({tokens, k}, at::kLong), stale({tokens, k}, at::kLong)};
  route(logits, mask, options, out);
  return out;
}

TEST(Gate, ties_go_to_the_lower_expert) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    Routes routes = routed(numbers({2, 5}, {1, 3, 1, 3, 3, 0, 0, 0, 0, 0}, dtype), {.top_k = 4});
    EXPECT_EQ(values(routes.idx_TK), (std::vector<int64_t>{1, 3, 4, 0, 0, 1, 2, 3}));
  }
}

TEST(Gate, equal_probabilities_keep_the_lower_token) {
  at::Tensor logits = numbers({3, 2}, {2, 1, 2, 1, 2, 1});
  Routes routes = routed(logits, {.drop = Drop::probs, .top_k = 1, .capacity = 2, .group = 3});
  EXPECT_EQ(values(routes.slot_TK), (std::vector<int64_t>{0, 1, -1}));
}

TEST(Gate, decides_each_group_alone) {
  RouteOptions options{.drop = Drop::position, .top_k = 1, .capacity = 1, .group = 2};
  Routes routes = routed(numbers({4, 2}, {1, 0, 1, 0, 1, 0, 0, 1}), options);
  EXPECT_EQ(values(routes.slot_TK), (std::vector<int64_t>{0, -1, 0, 0}));
  options.group = 3;
  EXPECT_THROW(routed(golden_logits(), options), ContractError);
}

TEST(Gate, one_renormalised_route_weighs_exactly_one_without_gradient) {
  for (Normalize normalize : {Normalize::before, Normalize::after}) {
    RouteOptions options{.normalize = normalize, .top_k = 1};
    Routes routes = routed(golden_logits(), options);
    expect_same_bits(routes.weight_TK, at::ones_like(routes.weight_TK));
    at::Tensor dlogits = stale({8, 4}, at::kFloat);
    route_grad({golden_logits(), routes.idx_TK, routes.slot_TK, random({8, 1}, at::kFloat)}, options, dlogits);
    EXPECT_TRUE(dlogits.eq(0).all().item<bool>());
  }
}

TEST(Gate, has_the_gradient_of_differences_in_every_mode) {
  at::Tensor mask = integers({8}, {1, 1, 1, 0, 1, 1, 1, 1});
  for (Normalize normalize : {Normalize::before, Normalize::after, Normalize::none})
    for (Drop drop : {Drop::none, Drop::probs, Drop::position}) {
      RouteOptions options{.normalize = normalize, .drop = drop, .top_k = 3, .capacity = 2, .group = 4};
      at::Tensor logits = golden_logits(at::kDouble), w = random({8, 3}, at::kDouble),
                 dlogits = stale({8, 4}, at::kDouble);
      Routes routes = routed(logits, options, mask);
      route_grad({logits, routes.idx_TK, routes.slot_TK, w}, options, dlogits);
      expect_gradient(logits, dlogits, [&] { return inner(routed(logits, options, mask).weight_TK, w); });
    }
}

TEST(Gate, statistics_have_the_gradient_of_differences) {
  at::Tensor logits = random({300, 3}, at::kDouble), mask = at::zeros({300}, at::kLong),
             dlogits = stale({300, 3}, at::kDouble);
  mask.slice(0, 0, 299, 2).fill_(1);
  GateStats grad{random({3}, at::kDouble, 2), numbers({}, {.7}, at::kDouble)};
  gate_stats_grad(logits, mask, {grad}, dlogits);
  auto loss = [&] {
    GateStats stats{stale({3}, at::kDouble), stale({}, at::kDouble)};
    gate_stats(logits, mask, stats);
    return inner(stats.psum_E, grad.psum_E) + inner(stats.zsum, grad.zsum);
  };
  expect_gradient(logits, dlogits, loss);
}

TEST(Gate, statistics_have_the_same_bits_with_one_and_two_threads) {
  at::Tensor logits = random({1000, 5}, at::kFloat), first;
  with_threads([&](int) {
    GateStats stats{stale({5}, at::kFloat), stale({}, at::kFloat)};
    gate_stats(logits, {}, stats);
    if (first.defined()) expect_same_bits(stats.psum_E, first);
    first = stats.psum_E;
  });
}

TEST(Gate, names_the_token_whose_logits_are_not_finite) {
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    at::Tensor logits = golden_logits();
    logits[5][2] = bad;
    try {
      routed(logits, {.top_k = 2});
      FAIL() << "not refused";
    } catch (const GateFault& fault) {
      EXPECT_NE(std::string(fault.what()).find("token 5 for expert 2"), std::string::npos) << fault.what();
    }
  }
}

TEST(Gate, far_logits_still_give_weights_that_sum_to_one) {
  Routes routes = routed(numbers({2, 3}, {500, 0, -500, 1e4, 1e4, -1e4}), {.normalize = Normalize::before});
  EXPECT_TRUE(routes.weight_TK.sum(1).eq(1).all().item<bool>());
  RouteOptions after{.drop = Drop::probs, .top_k = 2, .capacity = 1, .group = 2};
  routes = routed(numbers({2, 2}, {900, 0, 1000, 100}), after);
  EXPECT_EQ(values(routes.slot_TK), (std::vector<int64_t>{0, 0, -1, -1}));
}

TEST(Gate, works_without_tokens_and_refuses_impossible_options) {
  EXPECT_EQ(routed(at::empty({0, 4}), {.drop = Drop::probs, .capacity = 1, .group = 1}).idx_TK.numel(), 0);
  EXPECT_THROW(routed(golden_logits(), {.top_k = 5}), ContractError);
  EXPECT_THROW(routed(golden_logits(), {.gate = &switch_route, .top_k = 2}), ContractError);
}

TEST(Capacity, follows_the_published_examples) {
  struct Example {
    int64_t tokens, experts, top_k;
    CapacityOptions options;
    int64_t slots;
  };
  for (const Example& x :
       {Example{8192, 16, 1, {1, 4}, 512}, Example{2048, 64, 1, {1, 4}, 32}, Example{8192, 128, 1, {1, 4}, 64},
        Example{10, 4, 1, {1, 4}, 4}, Example{10, 4, 1, {1.25, 0}, 4}, Example{3, 4, 1, {8, 4}, 6},
        Example{100, 7, 1, {1.1, 4}, 16}, Example{100, 10, 1, {1.1, 4}, 11}, Example{8, 4, 2, {.5, 0}, 2},
        Example{8, 2, 2, {2, 4}, 16}})
    EXPECT_EQ(capacity(x.tokens, x.experts, x.top_k, x.options), x.slots) << x.tokens << " " << x.experts;
}

}  // namespace
}  // namespace plait::kernels
