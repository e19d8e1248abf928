#include "kernels/cpu/optimizer.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

// The update of one parameter as the paper writes it, in float64.
struct Scalar {
  double p, m = 0, v = 0;

  void step(const AdamW& a, double g) {
    m = a.beta1 * m + (1 - a.beta1) * g;
    v = a.beta2 * v + (1 - a.beta2) * g * g;
    double mean = m / (1 - std::pow(a.beta1, a.step)), square = v / (1 - std::pow(a.beta2, a.step));
    p -= a.lr * (mean / (std::sqrt(square) + a.eps) + a.weight_decay * p);
  }
};

at::Tensor zeros(int64_t size, at::ScalarType dtype) { return random({size}, dtype).zero_(); }

TEST(AdamW, follows_the_paper_for_three_steps) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor param = random({50}, dtype, 1), scale = numbers({}, {.5}, at::kDouble);
    Moments moments{zeros(50, dtype), zeros(50, dtype)};
    std::vector<Scalar> oracle;
    for (int64_t i = 0; i < 50; ++i) oracle.push_back({param[i].item<double>()});
    for (int64_t step = 1; step <= 3; ++step) {
      AdamW args{.lr = 1e-2, .weight_decay = .1, .step = step};
      at::Tensor grad = random({50}, dtype, 10 + step), kept = grad.clone();
      adamw(args, scale, param, grad, moments);
      expect_same_bits(grad, kept);
      for (int64_t i = 0; i < 50; ++i) oracle[i].step(args, .5 * grad[i].item<double>());
    }
    for (int64_t i = 0; i < 50; ++i) {
      EXPECT_NEAR(param[i].item<double>(), oracle[i].p, dtype == at::kFloat ? 1e-6 : 1e-14);
      EXPECT_NEAR(moments.v[i].item<double>(), oracle[i].v, dtype == at::kFloat ? 1e-6 : 1e-14);
    }
  }
}

TEST(AdamW, gives_the_same_bits_whole_in_pieces_and_with_two_threads) {
  constexpr int64_t kSize = 40007;
  auto fresh = [](uint64_t seed) { return random({kSize}, at::kFloat, seed); };
  AdamW args{.lr = 1e-2, .weight_decay = .1, .step = 4};
  at::Tensor one = numbers({}, {1}, at::kDouble), first;
  with_threads([&](int) {
    at::Tensor param = fresh(1), grad = fresh(2), m = fresh(3), v = fresh(4).square();
    adamw(args, one, param, grad, {m, v});
    if (first.defined()) expect_same_bits(param, first);
    first = param;
  });
  at::Tensor param = fresh(1), grad = fresh(2), m = fresh(3), v = fresh(4).square();
  for (int64_t begin = 0; begin < kSize; begin += 1013) {
    auto tile = [&](const at::Tensor& x) { return x.slice(0, begin, std::min(kSize, begin + 1013)); };
    adamw(args, one, tile(param), tile(grad), {tile(m), tile(v)});
  }
  expect_same_bits(param, first);
}

TEST(AdamW, without_gradient_only_decays) {
  at::Tensor param = numbers({2}, {1, -2}, at::kDouble), none = zeros(2, at::kDouble);
  AdamW args{.lr = .1, .weight_decay = .5, .step = 1};
  adamw(args, numbers({}, {1}, at::kDouble), param, none, {zeros(2, at::kDouble), zeros(2, at::kDouble)});
  expect_close(param, numbers({2}, {.95, -1.9}, at::kDouble), 1e-15);
  args.step = 0;
  EXPECT_THROW(adamw(args, numbers({}, {1}, at::kDouble), param, none, {none, none}), ContractError);
}

TEST(Sgd, steps_against_the_scaled_gradient_and_decays) {
  at::Tensor param = numbers({2}, {1, -2}, at::kDouble);
  sgd({.lr = .1, .weight_decay = .5}, numbers({}, {2}, at::kDouble), param, numbers({2}, {3, 0}, at::kDouble));
  expect_close(param, numbers({2}, {1 - .1 * (6 + .5), -2 + .1}, at::kDouble), 1e-15);
}

TEST(SumSquares, adds_in_float64_with_the_same_bits_on_any_thread_count) {
  at::Tensor x = random({100003}, at::kFloat), first;
  double oracle = inner(x, x);
  with_threads([&](int) {
    at::Tensor sum = stale({}, at::kDouble);
    sum_squares(x, sum);
    EXPECT_NEAR(sum.item<double>(), oracle, 1e-12 * oracle);
    if (first.defined()) expect_same_bits(sum, first);
    first = sum;
  });
  at::Tensor sum = stale({}, at::kDouble);
  sum_squares(at::empty({0}), sum);
  EXPECT_EQ(sum.item<double>(), 0);
}

TEST(Elementwise, adds_accumulates_and_scales) {
  at::Tensor a = random({30001}, at::kFloat, 1), b = random({30001}, at::kFloat, 2), c = stale({30001}, at::kFloat);
  with_threads([&](int) {
    add(a, b, c);
    expect_same_bits(c, a.add(b));
    accumulate(c, a);
    expect_same_bits(c, a.add(b).add(a));
    scale(a, -.25, c);
    expect_same_bits(c, a.mul(-.25));
  });
  EXPECT_THROW(add(a, b.slice(0, 1), c), ContractError);
}

}  // namespace
}  // namespace plait::kernels
