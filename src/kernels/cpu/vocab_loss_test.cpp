#include "kernels/cpu/vocab_loss.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

constexpr int64_t kTokens = 6, kVocabulary = 150;

struct Loss {
  at::Tensor loss, dz;
};

// The loss and its gradient with the vocabulary cut after `cuts`, as ranks would compute it.
Loss in_slices(const at::Tensor& z, const at::Tensor& target, const at::Tensor& weight, std::vector<int64_t> cuts) {
  cuts.push_back(z.size(1));
  int64_t tokens = z.size(0), slices = static_cast<int64_t>(cuts.size());
  auto dtype = z.scalar_type();
  std::vector<at::Tensor> part, maxima;
  for (int64_t q = 0; q < slices; ++q) {
    part.push_back(z.slice(1, q == 0 ? 0 : cuts[q - 1], cuts[q]).contiguous());
    maxima.push_back(stale({tokens, 1}, dtype));
    row_max(part[q], maxima[q]);
  }
  at::Tensor m = at::cat(maxima, 1);
  auto slice = [&](int64_t q) { return VocabSlice{part[q], m, target, q == 0 ? 0 : cuts[q - 1]}; };
  ExpSumTarget all{at::zeros_like(target, at::TensorOptions(dtype)), at::zeros_like(target, at::TensorOptions(dtype))};
  for (int64_t q = 0; q < slices; ++q) {
    ExpSumTarget sums{stale({tokens}, dtype), stale({tokens}, dtype)};
    exp_sum_target(slice(q), sums);
    all.s_T.add_(sums.s_T);
    all.c_T.add_(sums.c_T);
  }
  Loss result{stale({}, dtype), {}};
  nll(all, weight, result.loss);
  ExpSumTarget grad{stale({tokens}, dtype), stale({tokens}, dtype)};
  nll_grad({.s_T = all.s_T, .weight_T = weight, .dloss = numbers({}, {1.5}, dtype), .grad = grad});
  std::vector<at::Tensor> dz;
  for (int64_t q = 0; q < slices; ++q) {
    dz.push_back(stale(part[q].sizes(), dtype));
    exp_sum_target_grad(slice(q), grad, dz.back());
  }
  result.dz = at::cat(dz, 1);
  return result;
}

struct Example {
  at::Tensor z = random({kTokens, kVocabulary}, at::kDouble).mul(3);
  at::Tensor target = integers({kTokens}, {3, 149, 77, -100, 40, 90});
  at::Tensor weight = numbers({kTokens}, {0.2, 0.2, 0.2, 0, 0.2, 0.1}, at::kDouble);

  double oracle() const {
    at::Tensor log_p = at::log_softmax(z, 1);
    double loss = 0;
    for (int64_t t = 0; t < kTokens; ++t)
      if (int64_t id = values(target)[t]; id >= 0) loss -= weight[t].item<double>() * log_p[t][id].item<double>();
    return loss;
  }
};

TEST(VocabLoss, equals_the_whole_cross_entropy_however_the_vocabulary_is_cut) {
  Example x;
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{}, {75}, {40, 41, 100}}) {
    with_threads([&](int) {
      EXPECT_NEAR(in_slices(x.z, x.target, x.weight, cuts).loss.item<double>(), x.oracle(), 1e-12);
      at::Tensor single = in_slices(x.z.to(at::kFloat), x.target, x.weight.to(at::kFloat), cuts).loss;
      EXPECT_NEAR(single.item<double>(), x.oracle(), 2e-6 * x.oracle());
    });
  }
}

TEST(VocabLoss, has_the_gradient_of_differences) {
  Example x;
  at::Tensor dz = in_slices(x.z, x.target, x.weight, {75}).dz;
  expect_gradient(x.z, dz, [&] { return 1.5 * x.oracle(); });
  at::Tensor single = in_slices(x.z.to(at::kFloat), x.target, x.weight.to(at::kFloat), {75}).dz;
  expect_close(single, dz, 1e-7);
}

TEST(VocabLoss, padding_counts_exactly_nothing_even_with_strange_sums) {
  double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  at::Tensor weight = numbers({4}, {0, 0, 0, 1}, at::kDouble), s = numbers({4}, {nan, inf, 0, 2}, at::kDouble);
  at::Tensor loss = stale({}, at::kDouble);
  nll({s, numbers({4}, {nan, 0, inf, 0.5}, at::kDouble)}, weight, loss);
  EXPECT_DOUBLE_EQ(loss.item<double>(), std::log(2.0) - 0.5);
  ExpSumTarget grad{stale({4}, at::kDouble), stale({4}, at::kDouble)};
  nll_grad({.s_T = s, .weight_T = weight, .dloss = numbers({}, {1}, at::kDouble), .grad = grad});
  expect_same_bits(grad.s_T, numbers({4}, {0, 0, 0, 0.5}, at::kDouble));
  expect_same_bits(grad.c_T, numbers({4}, {0, 0, 0, -1}, at::kDouble));
  at::Tensor z = numbers({1, 2}, {inf, nan}, at::kDouble), zero = numbers({1}, {0}, at::kDouble);
  at::Tensor dz = stale({1, 2}, at::kDouble);
  exp_sum_target_grad({z, numbers({1, 1}, {inf}, at::kDouble), integers({1}, {0}), 0}, {zero, zero}, dz);
  EXPECT_TRUE(dz.eq(0).all().item<bool>());
}

TEST(VocabLoss, works_without_tokens_and_refuses_sums_that_do_not_fit) {
  at::Tensor none = at::empty({0}, at::kDouble), loss = stale({}, at::kDouble);
  nll({none, none}, none, loss);
  EXPECT_EQ(loss.item<double>(), 0);
  EXPECT_THROW(nll({none, none}, numbers({1}, {1}, at::kDouble), loss), ContractError);
}

}  // namespace
}  // namespace plait::kernels
