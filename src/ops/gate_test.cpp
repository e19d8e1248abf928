#include "ops/gate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "ops/oracle.h"

namespace plait::ops {
namespace {

// The golden vectors: DeepSpeed's own gating code, run in float32 on these logits.
at::Tensor golden_logits(at::ScalarType dtype = at::kFloat) {
  std::vector<double> l;
  for (int s = 0; s < 8; ++s)
    for (int e = 0; e < 4; ++e) l.push_back(((7 * s + 3 * e * e + 5 * s * e) % 11 - 5) / 4.0 + 0.013 * s + 0.037 * e);
  return numbers({8, 4}, l, dtype);
}

const std::vector<int64_t> kFirst = {3, 2, 3, 0, 1, 2, 1, 2};
const std::vector<int64_t> kSecond = {1, 0, 1, 2, 0, 1, 0, 1};
const std::vector<int64_t> kThird = {2, 3, 0, 1, 3, 3, 3, 3};

Routes routed(const at::Tensor& logits, const RouteOptions& options, const at::Tensor& mask = {}) {
  int64_t tokens = logits.size(0), k = options.top_k;
  Routes out{stale({tokens, k}, logits.scalar_type()), stale({tokens, k}, at::kLong), stale({tokens, k}, at::kLong)};
  route(logits, mask, options, out);
  return out;
}

std::vector<int64_t> choice(const at::Tensor& x_TK, int64_t k) { return values(x_TK.select(1, k).contiguous()); }

void expect_weights(const Routes& routes, int64_t k, const std::vector<double>& weights) {
  expect_close(routes.weight_TK.select(1, k), numbers({8}, weights), 1e-6);
}

double aux_loss(const at::Tensor& logits, const at::Tensor& idx_TK, const at::Tensor& mask = {}) {
  int64_t tokens = mask.defined() ? mask.sum().item<int64_t>() : logits.size(0), experts = logits.size(1);
  GateStats stats{stale({experts}, logits.scalar_type()), stale({}, logits.scalar_type())};
  gate_stats(logits, mask, stats);
  at::Tensor load = stale({experts}, logits.scalar_type());
  expert_load(idx_TK, load);
  double n = static_cast<double>(tokens);
  return static_cast<double>(experts) / static_cast<double>(idx_TK.size(1)) * inner(stats.psum_E, load) / n / n;
}

constexpr RouteOptions kSwitch = {.gate = Gate::switch_top1, .top_k = 1};
const std::vector<double> kSwitchWeights = {.459942, .331865, .341683, .424628, .359018, .435989, .376348, .395718};

TEST(GoldenGate, top1_with_capacity_and_without) {
  RouteOptions capped = kSwitch;
  capped.drop = Drop::position;
  capped.group = 8;
  capped.capacity = capacity(8, 4, 1, {.factor = 2, .min_capacity = 0});
  EXPECT_EQ(capped.capacity, 4);
  for (const RouteOptions& options : {kSwitch, capped}) {
    Routes routes = routed(golden_logits(), options);
    EXPECT_EQ(values(routes.idx_TK), kFirst);
    EXPECT_EQ(values(routes.slot_TK), (std::vector<int64_t>{0, 0, 1, 0, 0, 1, 1, 2}));
    expect_weights(routes, 0, kSwitchWeights);
    at::Tensor load = stale({4}, at::kFloat);
    expert_load(routes.idx_TK, load);
    expect_same_bits(load, numbers({4}, {1, 2, 3, 2}));
    EXPECT_NEAR(aux_loss(golden_logits(), routes.idx_TK), 1.0102780, 1e-6);
  }
}

TEST(GoldenGate, padding_is_left_out_of_routes_and_statistics) {
  at::Tensor mask = integers({8}, {1, 1, 0, 1, 1, 1, 1, 0});
  at::Tensor logits = golden_logits();
  logits[2][1] = std::numeric_limits<float>::quiet_NaN();
  Routes routes = routed(logits, kSwitch, mask);
  EXPECT_EQ(values(routes.idx_TK), (std::vector<int64_t>{3, 2, -1, 0, 1, 2, 1, -1}));
  EXPECT_EQ(values(routes.slot_TK), (std::vector<int64_t>{0, 0, -1, 0, 0, 1, 1, -1}));
  expect_weights(routes, 0, {.459942, .331865, 0, .424628, .359018, .435989, .376348, 0});
  at::Tensor load = stale({4}, at::kFloat);
  expert_load(routes.idx_TK, load);
  expect_same_bits(load, numbers({4}, {1, 2, 2, 1}));
  EXPECT_NEAR(aux_loss(logits, routes.idx_TK, mask), 1.010223, 1e-6);
}

TEST(GoldenGate, top3_keeps_the_most_probable_routes) {
  RouteOptions options{.drop = Drop::probs, .top_k = 3, .capacity = 3, .group = 8};
  EXPECT_EQ(capacity(8, 4, 3, {.factor = .5, .min_capacity = 0}), 3);
  Routes routes = routed(golden_logits(), options);
  EXPECT_EQ(choice(routes.idx_TK, 0), kFirst);
  EXPECT_EQ(choice(routes.slot_TK, 0), (std::vector<int64_t>{0, 0, 1, 1, 0, 1, 1, 2}));
  EXPECT_EQ(choice(routes.slot_TK, 1), (std::vector<int64_t>{-1, 0, -1, -1, -1, -1, 2, 2}));
  EXPECT_EQ(choice(routes.slot_TK, 2), (std::vector<int64_t>{-1, -1, -1, -1, 2, -1, -1, -1}));
  expect_weights(routes, 0, {1, .518492, 1, 1, .604918, 1, .509249, .509249});
  expect_weights(routes, 1, {0, .481508, 0, 0, 0, 0, .490751, .490751});
  expect_weights(routes, 2, {0, 0, 0, 0, .395082, 0, 0, 0});
  EXPECT_NEAR(aux_loss(golden_logits(), routes.idx_TK), 1.0061486, 1e-6);
}

TEST(GoldenGate, top3_keeps_the_first_that_came) {
  Routes routes = routed(golden_logits(), {.drop = Drop::position, .top_k = 3, .capacity = 3, .group = 8});
  EXPECT_EQ(choice(routes.slot_TK, 0), (std::vector<int64_t>{0, 1, 2, 2, -1, -1, -1, -1}));
  EXPECT_EQ(choice(routes.slot_TK, 1), (std::vector<int64_t>{0, 0, 1, 2, -1, -1, -1, -1}));
  EXPECT_EQ(choice(routes.slot_TK, 2), (std::vector<int64_t>{0, 1, 1, 2, -1, -1, -1, -1}));
  expect_weights(routes, 0, {.521435, .390921, .404616, .491434, 0, 0, 0, 0});
  expect_weights(routes, 1, {.293708, .363037, .375755, .320963, 0, 0, 0, 0});
  expect_weights(routes, 2, {.184857, .246043, .219629, .187603, 0, 0, 0, 0});
}

TEST(GoldenGate, top3_without_drops) {
  Routes routes = routed(golden_logits(), {.top_k = 3});
  EXPECT_EQ(choice(routes.idx_TK, 0), kFirst);
  EXPECT_EQ(choice(routes.idx_TK, 1), kSecond);
  EXPECT_EQ(choice(routes.idx_TK, 2), kThird);
  EXPECT_EQ(choice(routes.slot_TK, 0), (std::vector<int64_t>{0, 1, 2, 2, 3, 3, 5, 4}));
  EXPECT_EQ(choice(routes.slot_TK, 1), (std::vector<int64_t>{0, 0, 1, 2, 3, 4, 4, 6}));
  EXPECT_EQ(choice(routes.slot_TK, 2), (std::vector<int64_t>{0, 1, 1, 2, 3, 4, 5, 6}));
  expect_weights(routes, 0, {.521435, .390921, .404616, .491434, .416038, .468986, .423763, .442286});
  at::Tensor load = stale({4}, at::kFloat);
  expert_load(routes.idx_TK, load);
  expect_same_bits(load, numbers({4}, {5, 7, 5, 7}));
}

// (token, expert, slot) of every kept route in DeepSpeed's own test of its top-k gate.
TEST(GoldenGate, two_experts_of_four_with_two_places) {
  at::Tensor logits = numbers({4, 4}, {.11, .2, .1, .3, .3, .4, .11, .1, .11, .1, .6, .5, .1, .11, .7, .8});
  auto kept = [&](Drop drop) {
    Routes routes = routed(logits, {.drop = drop, .top_k = 2, .capacity = 2, .group = 4});
    std::vector<std::vector<int64_t>> rows;
    for (int64_t r = 0; r < 8; ++r)
      if (values(routes.slot_TK)[r] >= 0) rows.push_back({r / 2, values(routes.idx_TK)[r], values(routes.slot_TK)[r]});
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  std::vector<std::vector<int64_t>> probs = {{0, 1, 0}, {1, 0, 0}, {1, 1, 1}, {2, 2, 0},
                                             {2, 3, 0}, {3, 2, 1}, {3, 3, 1}};
  std::vector<std::vector<int64_t>> position = {{0, 1, 0}, {0, 3, 0}, {1, 0, 0}, {1, 1, 1},
                                                {2, 2, 0}, {2, 3, 1}, {3, 2, 1}};
  EXPECT_EQ(kept(Drop::probs), probs);
  EXPECT_EQ(kept(Drop::position), position);
}

TEST(GoldenGate, gradient_of_the_weights_of_top1) {
  at::Tensor slot = integers({8, 1}, {0, 0, 1, 0, 0, 1, 1, -1}), dlogits = stale({8, 4}, at::kFloat);
  RouteGrad grad{golden_logits(), integers({8, 1}, kFirst), slot, numbers({8, 1}, {1, 1, 1, 1, 1, 1, 1, 1})};
  route_grad(grad, kSwitch, dlogits);
  at::Tensor golden = numbers({8, 4}, {-.054241, -.119157, -.074997, .248395,  -.102279, -.050134, .221731,  -.069318,
                                       -.063371, -.10842,  -.053144, .224936,  .244319,  -.068832, -.117763, -.057724,
                                       -.096737, .230124,  -.049205, -.084183, -.030676, -.142662, .245903,  -.072565,
                                       -.136493, .23471,   -.042109, -.056108, 0,        0,        0,        0});
  expect_close(dlogits, golden, 1e-6);
}

TEST(GoldenGate, gradient_of_the_aux_loss_of_top1) {
  at::Tensor load = numbers({4}, {1, 2, 3, 2}), dlogits = stale({8, 4}, at::kFloat);
  gate_stats_grad(golden_logits(), {}, {load.mul(4.0 / 64), numbers({}, {0})}, dlogits);
  at::Tensor golden = numbers({8, 4}, {-.007703, -.000731, .009731, -.001297, -.019718, -.000223, .020251, -.000309,
                                       -.011245, .000594,  .010012, .000639,  -.02263,  .001492,  .019886, .001251,
                                       -.014611, .002971,  .0097,   .00194,   -.006005, -.007477, .017286, -.003803,
                                       -.016983, .005899,  .008747, .002337,  -.008492, -.006922, .017549, -.002136});
  expect_close(dlogits, golden, 1e-6);
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
  gate_stats_grad(logits, mask, grad, dlogits);
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
  EXPECT_THROW(routed(golden_logits(), {.gate = Gate::switch_top1, .top_k = 2}), ContractError);
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
        Example{100, 7, 1, {1.1, 4}, 16}, Example{100, 10, 1, {1.1, 4}, 11}, Example{8, 4, 2, {.5, 0}, 2}})
    EXPECT_EQ(capacity(x.tokens, x.experts, x.top_k, x.options), x.slots) << x.tokens << " " << x.experts;
}

}  // namespace
}  // namespace plait::ops
