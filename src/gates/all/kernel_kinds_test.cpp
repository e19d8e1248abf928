// The gates besides softmax and Switch, and the options that draw.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "gates/all/kernel.h"
#include "gates/base/record.h"
#include "gates/expert_choice/record.h"
#include "gates/gshard/record.h"
#include "gates/hash/kernel.h"
#include "gates/sigmoid/record.h"
#include "gates/switch/record.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

Routes routed(const at::Tensor& logits, const RouteOptions& options, const GateExtras& extras = {},
              const at::Tensor& mask = {}) {
  int64_t tokens = logits.size(0), k = options.top_k;
  Routes out{stale({tokens, k}, logits.scalar_type()), stale({tokens, k}, at::kLong), stale({tokens, k}, at::kLong)};
  route(logits, mask, options, out, extras);
  return out;
}

std::vector<int64_t> choice(const at::Tensor& x_TK, int64_t k) { return values(x_TK.select(1, k).contiguous()); }

// Against differences, the choice held by logits that lie far apart.
void expect_weight_gradient(const RouteOptions& options, const GateExtras& extras = {}) {
  at::Tensor logits = golden_logits(at::kDouble), mask = integers({8}, {1, 1, 1, 0, 1, 1, 1, 1}),
             w = random({8, options.top_k}, at::kDouble), dlogits = stale({8, 4}, at::kDouble);
  Routes routes = routed(logits, options, extras, mask);
  route_grad({logits, routes.idx_TK, routes.slot_TK, w}, options, dlogits);
  EXPECT_GT(dlogits.abs().max().item<double>(), 1e-3);
  expect_gradient(logits, dlogits, [&] { return inner(routed(logits, options, extras, mask).weight_TK, w); });
}

TEST(Gate, of_every_kind_has_the_gradient_of_differences) {
  const GateExtras bias{.bias_E = numbers({4}, {.3, -.2, .1, 0}, at::kDouble)};
  expect_weight_gradient({.gate = &gshard_route});
  expect_weight_gradient({.gate = &gshard_route, .drop = Drop::position, .capacity = 2, .group = 8});
  expect_weight_gradient({.gate = &expert_choice_route, .drop = Drop::position, .top_k = 4, .capacity = 3, .group = 8});
  expect_weight_gradient({.gate = &base_route, .top_k = 1, .group = 4});
  for (Normalize normalize : {Normalize::before, Normalize::after, Normalize::none}) {
    const GateRule grouped{.expert_groups = 2, .kept_groups = 1, .scaling = 2.5};
    expect_weight_gradient({.gate = &topk_softmax_route, .normalize = normalize, .top_k = 3});
    expect_weight_gradient({.gate = &topk_softmax_route,
                            .normalize = normalize,
                            .drop = Drop::probs,
                            .top_k = 3,
                            .capacity = 2,
                            .group = 4});
    expect_weight_gradient({.gate = &sigmoid_route, .normalize = normalize, .rule = grouped}, bias);
    expect_weight_gradient(
        {.gate = &sigmoid_route, .normalize = normalize, .drop = Drop::probs, .top_k = 3, .capacity = 2, .group = 4},
        bias);
  }
}

TEST(GshardGate, draws_its_second_expert_by_the_softmax_of_the_others) {
  const at::Tensor logits = numbers({1, 3}, {2, 0, std::log(3.0)}).expand({4000, 3}).contiguous();
  const GateExtras extras{.sample = {.key = 9, .columns = 3}};
  Routes routes = routed(logits, {.gate = &gshard_route, .rule = {.sample = Sample::gumbel}}, extras);
  EXPECT_EQ(std::ranges::count(choice(routes.idx_TK, 0), 0), 4000);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(choice(routes.idx_TK, 1), 2)) / 4000, 0.75, 0.03);
}

TEST(SwitchGate, draws_its_expert_and_weighs_it_by_the_clean_softmax) {
  const at::Tensor logits = numbers({1, 2}, {0, std::log(4.0)}).expand({4000, 2}).contiguous();
  const GateExtras extras{.sample = {.key = 3, .columns = 2}};
  Routes routes = routed(logits, {.gate = &switch_route, .top_k = 1, .rule = {.sample = Sample::gumbel}}, extras);
  double second = 0;
  for (int64_t t = 0; t < 4000; ++t) {
    const int64_t e = values(routes.idx_TK)[t];
    second += static_cast<double>(e);
    if (t < 20) EXPECT_NEAR(routes.weight_TK[t].item<double>(), e == 1 ? 0.8 : 0.2, 1e-6);
  }
  EXPECT_NEAR(second / 4000, 0.8, 0.03);
}

TEST(TopkSoftmaxGate, weighs_among_the_chosen_and_ranks_by_it) {
  const at::Tensor logits = numbers({2, 3}, {2, 1, -9, 2, .9, .8});
  Routes routes = routed(logits, {.gate = &topk_softmax_route, .normalize = Normalize::none});
  expect_close(routes.weight_TK.sum(1), numbers({2}, {1, 1}), 1e-6);
  const RouteOptions one{.normalize = Normalize::none, .drop = Drop::probs, .capacity = 1, .group = 2};
  RouteOptions other = one;
  other.gate = &topk_softmax_route;
  EXPECT_EQ(choice(routed(logits, one).slot_TK, 0), (std::vector<int64_t>{0, -1}));
  EXPECT_EQ(choice(routed(logits, other).slot_TK, 0), (std::vector<int64_t>{-1, 0}));
}

TEST(SigmoidGate, chooses_with_the_bias_within_the_best_groups_and_weighs_without) {
  const auto logit = [](double s) { return std::log(s / (1 - s)); };
  const at::Tensor logits = numbers({1, 4}, {logit(.9), logit(.1), logit(.6), logit(.5)}, at::kDouble);
  const GateExtras none{.bias_E = at::zeros({4}, at::kDouble)},
      pushed{.bias_E = numbers({4}, {-.85, 0, 0, 0}, at::kDouble)};
  const auto chosen = [&](const GateRule& rule, const GateExtras& extras) {
    Routes r = routed(logits, {.gate = &sigmoid_route, .normalize = Normalize::before, .rule = rule}, extras);
    EXPECT_NEAR(r.weight_TK.sum().item<double>(), rule.scaling, 1e-12);
    return values(r.idx_TK);
  };
  EXPECT_EQ(chosen({}, none), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(chosen({}, pushed), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(chosen({.expert_groups = 2, .kept_groups = 1, .scaling = 2}, none), (std::vector<int64_t>{2, 3}));
  Routes r = routed(logits, {.gate = &sigmoid_route, .normalize = Normalize::none}, pushed);
  expect_close(r.weight_TK, numbers({1, 2}, {.6, .5}, at::kDouble), 1e-12);
}

TEST(ExpertChoice, gives_every_expert_its_most_probable_tokens_of_each_group) {
  Routes routes = routed(numbers({4, 2}, {3, 0, 2, 0, 1, 0, 0, 9}),
                         {.gate = &expert_choice_route, .drop = Drop::position, .top_k = 2, .capacity = 1, .group = 2});
  EXPECT_EQ(values(routes.idx_TK), (std::vector<int64_t>{0, -1, -1, 1, 0, -1, -1, 1}));
  EXPECT_EQ(values(routes.slot_TK), (std::vector<int64_t>{0, -1, -1, 0, 0, -1, -1, 0}));
  expect_close(routes.weight_TK[0][0], numbers({}, {1 / (1 + std::exp(-3.0))}), 1e-6);
}

TEST(BaseGate, gives_every_expert_the_same_share_whatever_the_logits) {
  at::Tensor logits = random({24, 4}, at::kFloat);
  logits.select(1, 0).add_(10);
  for (int64_t group : {8, 24}) {
    Routes routes = routed(logits, {.gate = &base_route, .top_k = 1, .group = group});
    at::Tensor load = stale({4}, at::kFloat);
    expert_load(routes.idx_TK, load);
    expect_same_bits(load, numbers({4}, {6, 6, 6, 6}));
  }
}

// All assignments of six tokens to three experts, two each.
double best_by_trial(const at::Tensor& logits) {
  const int64_t tokens = logits.size(0), experts = logits.size(1), low = tokens / experts;
  double best = -INFINITY;
  const auto all = static_cast<int64_t>(std::pow(experts, tokens));
  for (int64_t code = 0; code < all; ++code) {
    std::vector<int64_t> load(static_cast<size_t>(experts));
    double sum = 0;
    for (int64_t t = 0, rest = code; t < tokens; ++t, rest /= experts) {
      ++load[static_cast<size_t>(rest % experts)];
      sum += logits[t][rest % experts].item<double>();
    }
    const auto [least, most] = std::ranges::minmax(load);
    if (least >= low && most <= low + (tokens % experts ? 1 : 0)) best = std::max(best, sum);
  }
  return best;
}

TEST(BaseGate, finds_the_greatest_sum_of_affinities_that_equal_shares_allow) {
  for (uint64_t seed = 1; seed <= 40; ++seed)
    for (int64_t tokens : {3, 5, 6}) {
      at::Tensor logits = random({tokens, 3}, at::kDouble, seed);
      if (seed % 2) logits.select(1, 0).add_(2);  // everybody wants the same expert
      const RouteOptions options{.gate = &base_route, .top_k = 1};
      const std::vector<int64_t> idx = values(routed(logits, options).idx_TK);
      double sum = 0;
      std::vector<int64_t> load(3);
      for (int64_t t = 0; t < tokens; ++t) {
        ++load[static_cast<size_t>(idx[static_cast<size_t>(t)])];
        sum += logits[t][idx[static_cast<size_t>(t)]].item<double>();
      }
      EXPECT_NEAR(sum, best_by_trial(logits), 1e-10) << "seed " << seed << ", " << tokens << " tokens";
      EXPECT_LE(*std::ranges::max_element(load) - *std::ranges::min_element(load), tokens % 3 ? 1 : 0);
    }
}

TEST(BaseGate, shares_thousands_of_tokens_that_agree_among_many_experts) {
  at::Tensor logits = random({4096, 64}, at::kFloat);
  logits.add_(random({1, 64}, at::kFloat, 2), 3);
  at::Tensor load = stale({64}, at::kFloat);
  expert_load(routed(logits, {.gate = &base_route, .top_k = 1}).idx_TK, load);
  EXPECT_TRUE(load.eq(64).all().item<bool>());
}

TEST(BaseGate, of_groups_of_one_token_gives_each_its_best_expert) {
  const at::Tensor logits = random({200, 6}, at::kDouble);
  const std::vector<int64_t> idx = values(routed(logits, {.gate = &base_route, .top_k = 1, .group = 1}).idx_TK);
  for (int64_t t = 0; t < 200; ++t)
    EXPECT_EQ(idx[static_cast<size_t>(t)], logits[t].argmax().item<int64_t>()) << "token " << t;
  EXPECT_EQ(values(routed(at::zeros({2, 3}), {.gate = &base_route, .top_k = 1, .group = 1}).idx_TK),
            (std::vector<int64_t>{0, 0}));
}

TEST(BaseGate, gives_equal_affinities_to_the_lower_expert_first) {
  const RouteOptions options{.gate = &base_route, .top_k = 1};
  EXPECT_EQ(values(routed(at::zeros({5, 3}), options).idx_TK), (std::vector<int64_t>{0, 1, 2, 0, 1}));
}

TEST(HashGate, goes_by_the_id_alone_and_weighs_equally) {
  const at::Tensor ids = integers({4}, {5, 2, 5, 1}), mask = integers({4}, {1, 1, 1, 0});
  Routes routes{stale({4, 2}, at::kFloat), stale({4, 2}, at::kLong), stale({4, 2}, at::kLong)};
  route_by_hash({ids, mask, 3}, {.drop = Drop::position, .capacity = 2, .group = 4}, routes);
  EXPECT_EQ(values(routes.idx_TK), (std::vector<int64_t>{2, 0, 2, 0, 2, 0, -1, -1}));
  EXPECT_EQ(values(routes.slot_TK), (std::vector<int64_t>{0, 0, 1, 1, -1, -1, -1, -1}));
  expect_same_bits(routes.weight_TK, numbers({4, 2}, {.5, .5, .5, .5, 0, 0, 0, 0}));
}

TEST(Bias, moves_against_the_load) {
  at::Tensor bias = numbers({4}, {0, 1, 0, 0});
  balance_bias(numbers({4}, {1, 5, 3, 3}), 0.25, bias);
  expect_same_bits(bias, numbers({4}, {.25, .75, 0, 0}));
}

TEST(Gate, of_two_or_one_experts_refuses_another_number) {
  EXPECT_THROW(routed(golden_logits(), {.gate = &gshard_route, .top_k = 3}), ContractError);
  EXPECT_THROW(routed(golden_logits(), {.gate = &base_route, .top_k = 2, .group = 8}), ContractError);
  EXPECT_THROW(routed(golden_logits(), {.gate = &expert_choice_route, .top_k = 2, .group = 8}), ContractError);
  EXPECT_THROW(routed(golden_logits(), {.gate = &sigmoid_route}), ContractError);
}

}  // namespace
}  // namespace plait::kernels
