// Every gate with every loss it has, from the matrices of gate and noise on, against central differences in float64.
// The choice does not change for so small a step.
#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "gates/all/kernel.h"
#include "gates/base/record.h"
#include "gates/expert_choice/record.h"
#include "gates/gshard/record.h"
#include "gates/noisy_topk/kernel.h"
#include "gates/sigmoid/record.h"
#include "gates/switch/record.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

constexpr int64_t kTokens = 12, kWidth = 5, kExperts = 4;

struct Form {
  std::string name;
  RouteOptions options;
  StatsOptions stats = {};
  bool noisy = false;
};

RouteOptions over_capacity(RouteOptions options, Drop drop) {
  options.drop = drop;
  options.capacity = 2;
  options.group = 6;
  return options;
}

std::vector<Form> forms() {
  const StatsOptions sequences{.groups = {.size = 4, .first = 0}, .score = Score::sigmoid};
  const StatsOptions cut{.groups = {.size = 8, .first = 4}};  // the rank begins in the middle of a group
  std::vector<Form> all = {
      {"switch", {.gate = &switch_route, .top_k = 1}, cut},
      {"switch_drawn", {.gate = &switch_route, .top_k = 1, .rule = {.sample = Sample::gumbel}}},
      {"switch_rts", over_capacity({.gate = &switch_route, .top_k = 1}, Drop::rts)},
      {"gshard", {.gate = &gshard_route}},
      {"gshard_drawn", {.gate = &gshard_route, .rule = {.sample = Sample::gumbel}}, cut},
      {"gshard_over_capacity", over_capacity({.gate = &gshard_route}, Drop::position)},
      {"expert_choice", over_capacity({.gate = &expert_choice_route, .top_k = kExperts}, Drop::position)},
      {"base", {.gate = &base_route, .top_k = 1, .group = 6}},
      {"base_over_capacity", over_capacity({.gate = &base_route, .top_k = 1}, Drop::probs)},
      {"noisy", {.gate = &topk_softmax_route, .normalize = Normalize::before}, {}, true},
      {"noisy_one", {.gate = &topk_softmax_route, .normalize = Normalize::before, .top_k = 1}, {}, true},
      {"noisy_all", {.gate = &topk_softmax_route, .normalize = Normalize::before, .top_k = kExperts}, {}, true},
      {"noisy_over_capacity",
       over_capacity({.gate = &topk_softmax_route, .normalize = Normalize::before}, Drop::probs),
       {},
       true},
  };
  const std::pair<const char*, Normalize> modes[] = {
      {"before", Normalize::before}, {"after", Normalize::after}, {"none", Normalize::none}};
  const GateRule grouped{.expert_groups = 2, .kept_groups = 1, .scaling = 2.5};
  for (const auto& [mode, normalize] : modes) {
    const auto add = [&](const std::string& name, RouteOptions options, const StatsOptions& stats) {
      options.normalize = normalize;
      all.push_back({name + "_" + mode, options, stats});
      all.push_back({name + "_probs_" + mode, over_capacity(options, Drop::probs), stats});
    };
    add("softmax", {.top_k = 3}, {});
    add("topk_softmax", {.gate = &topk_softmax_route, .top_k = 3}, cut);
    add("sigmoid", {.gate = &sigmoid_route}, sequences);
    add("sigmoid_of_one_group", {.gate = &sigmoid_route, .rule = grouped}, sequences);
  }
  return all;
}

constexpr Draws kDraws{.key = 5, .columns = kExperts};

at::Tensor real64(at::IntArrayRef shape) { return stale(shape, at::kDouble); }

// The gate on x W', and what its results are weighed with.
class Gated {
 public:
  explicit Gated(const Form& form) : form_(form) {
    mask_[7] = 0;
    extras_.bias_E = numbers({kExperts}, {.3, -.2, .1, 0}, at::kDouble);
    extras_.priority = extras_.sample = kDraws;
  }

  at::Tensor gate = random({kExperts, kWidth}, at::kDouble, 2), noise = random({kExperts, kWidth}, at::kDouble, 3);

  double loss() {
    forward();
    double sum = kernels::inner(routes_.weight_TK, c_weight_) + kernels::inner(stats_.psum_E, c_psum_) +
                 kernels::inner(stats_.zsum, c_zsum_);
    if (form_.noisy)
      sum += kernels::inner(noisy_stats_.importance_E, c_importance_) + kernels::inner(noisy_stats_.load_E, c_load_);
    return sum;
  }

  // d loss / d gate and, of a noisy one, d loss / d noise.
  std::pair<at::Tensor, at::Tensor> gradients() {
    forward();
    at::Tensor dscores = like(), dlogits = like(), dspread = at::zeros({kTokens, kExperts}, at::kDouble);
    route_grad({scores_, routes_.idx_TK, routes_.slot_TK, c_weight_}, form_.options, dscores);
    gate_stats_grad(logits_, mask_, {{c_psum_, c_zsum_}, form_.stats}, dlogits);
    if (form_.noisy) {
      const NoisyLogits of{logits_, spread_, scores_}, to{like(), like(), like()};
      noisy_stats_grad(of, mask_, {form_.options.top_k, {c_importance_, c_load_}}, to);
      dscores += to.noisy_TE;
      dlogits += to.logits_TE;
      noise_grad(spread_, dscores, kDraws, dspread);
      dspread += to.spread_TE;
    }
    dlogits += dscores;
    return {dlogits.t().mm(x_), dspread.t().mm(x_)};
  }

 private:
  static at::Tensor like() { return real64({kTokens, kExperts}); }

  void forward() {
    const int64_t k = form_.options.top_k, groups = form_.stats.groups.of(kTokens - 1) + 1;
    logits_ = x_.mm(gate.t());
    spread_ = x_.mm(noise.t());
    scores_ = logits_;
    if (form_.noisy) {
      scores_ = like();
      add_noise({logits_, spread_}, kDraws, scores_);
      noisy_stats_ = {real64({kExperts}), real64({kExperts})};
      noisy_stats({logits_, spread_, scores_}, mask_, k, noisy_stats_);
    }
    routes_ = {real64({kTokens, k}), stale({kTokens, k}, at::kLong), stale({kTokens, k}, at::kLong)};
    route(scores_, mask_, form_.options, routes_, extras_);
    stats_ = {real64({groups, kExperts}), real64({groups})};
    gate_stats(logits_, mask_, stats_, form_.stats);
    c_weight_ = random({kTokens, k}, at::kDouble, 4);
    c_psum_ = random({groups, kExperts}, at::kDouble, 6);
    c_zsum_ = random({groups}, at::kDouble, 7);
  }

  const Form& form_;
  at::Tensor x_ = random({kTokens, kWidth}, at::kDouble, 1),
             mask_ = integers({kTokens}, std::vector<int64_t>(kTokens, 1));
  GateExtras extras_;
  at::Tensor logits_, spread_, scores_, c_weight_, c_psum_, c_zsum_;
  at::Tensor c_importance_ = random({kExperts}, at::kDouble, 8), c_load_ = random({kExperts}, at::kDouble, 9);
  Routes routes_;
  GateStats stats_;
  NoisyStats noisy_stats_;
};

class GateGradient : public testing::TestWithParam<Form> {};

TEST_P(GateGradient, is_that_of_differences) {
  Gated gated(GetParam());
  const auto [dgate, dnoise] = gated.gradients();
  EXPECT_GT(dgate.abs().max().item<double>(), 1e-2);
  expect_gradient(gated.gate, dgate.contiguous(), [&] { return gated.loss(); });
  if (GetParam().noisy) EXPECT_GT(dnoise.abs().max().item<double>(), 1e-2);
  expect_gradient(gated.noise, dnoise.contiguous(), [&] { return gated.loss(); });
}

INSTANTIATE_TEST_SUITE_P(Gates, GateGradient, testing::ValuesIn(forms()),
                         [](const auto& info) { return info.param.name; });

TEST(NoisyGate, has_load_and_importance_of_the_original_definition) {
  const at::Tensor logits = numbers({1, 3}, {1, 0, -1}, at::kDouble),
                   noisy = numbers({1, 3}, {.5, .8, -2}, at::kDouble);
  const at::Tensor spread = numbers({1, 3}, {0, 0, 0}, at::kDouble);  // deviation ln 2
  NoisyStats stats{real64({3}), real64({3})};
  noisy_stats({logits, spread, noisy}, {}, 1, stats);
  expect_close(stats.importance_E, numbers({3}, {0, 1, 0}, at::kDouble), 1e-12);
  const auto phi = [](double u) { return std::erfc(-u / std::sqrt(2.0)) / 2; };
  const double deviation = std::log(2.0);
  // The chosen one has to beat the second best, the others the chosen one.
  expect_close(
      stats.load_E,
      numbers({3}, {phi((1 - .8) / deviation), phi((0 - .5) / deviation), phi((-1 - .8) / deviation)}, at::kDouble),
      1e-12);
  EXPECT_NEAR(squared_variation(numbers({4}, {1, 1, 1, 1})), 0, 1e-12);
  EXPECT_NEAR(squared_variation(numbers({4}, {4, 0, 0, 0})), 3, 1e-6);
}

TEST(GateStats, of_groups_are_those_of_each_group_alone) {
  const at::Tensor logits = random({10, 3}, at::kDouble);
  const TokenGroups groups{.size = 4, .first = 2};  // 2, 4 and 4 tokens
  for (Score score : {Score::softmax, Score::sigmoid}) {
    GateStats all{real64({3, 3}), real64({3})};
    gate_stats(logits, {}, all, {groups, score});
    const int64_t begins[] = {0, 2, 6, 10};
    for (int64_t g = 0; g < 3; ++g) {
      GateStats one{real64({3}), real64({})};
      gate_stats(logits.slice(0, begins[g], begins[g + 1]).contiguous(), {}, one, {.score = score});
      expect_same_bits(all.psum_E[g], one.psum_E);
      expect_same_bits(all.zsum[g], one.zsum);
      EXPECT_NEAR(one.psum_E.sum().item<double>(), static_cast<double>(begins[g + 1] - begins[g]), 1e-12);
    }
  }
}

}  // namespace
}  // namespace plait::kernels
