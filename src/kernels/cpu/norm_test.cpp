#include "kernels/cpu/norm.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

at::Tensor by_loops(const at::Tensor& x, const at::Tensor& gain, double eps) {
  at::Tensor wide = x.to(at::kDouble), y = at::empty(x.sizes(), at::kDouble);
  for (int64_t t = 0; t < x.size(0); ++t) {
    double rms = std::sqrt(inner(wide[t], wide[t]) / static_cast<double>(x.size(1)) + eps);
    y[t].copy_(wide[t].div(rms).mul(gain.to(at::kDouble)));
  }
  return y;
}

TEST(RmsNorm, divides_a_row_by_its_root_mean_square) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor x = random({70, 131}, dtype, 1), gain = random({131}, dtype, 2), y = stale({70, 131}, dtype);
    with_threads([&](int) {
      rms_norm(x, gain, 1e-5, y);
      expect_close(y, by_loops(x, gain, 1e-5), dtype == at::kFloat ? 5e-7 : 1e-14);
    });
  }
}

TEST(RmsNorm, has_the_gradient_of_differences) {
  at::Tensor x = random({5, 9}, at::kDouble, 1), gain = random({9}, at::kDouble, 2), w = random({5, 9}, at::kDouble, 3);
  at::Tensor y = at::empty({5, 9}, at::kDouble), dx = stale({5, 9}, at::kDouble), dgain = stale({9}, at::kDouble);
  rms_norm_grad({.x_TD = x, .gain_D = gain, .dy_TD = w, .dx_TD = dx, .dgain_D = dgain}, 1e-2);
  auto loss = [&] {
    rms_norm(x, gain, 1e-2, y);
    return inner(y, w);
  };
  expect_gradient(x, dx, loss);
  expect_gradient(gain, dgain, loss);
}

TEST(RmsNorm, gain_gradient_has_the_same_bits_with_one_and_two_threads) {
  at::Tensor x = random({1000, 40}, at::kFloat, 1), gain = random({40}, at::kFloat, 2), first;
  with_threads([&](int) {
    at::Tensor dx = stale({1000, 40}, at::kFloat), dgain = stale({40}, at::kFloat);
    rms_norm_grad({.x_TD = x, .gain_D = gain, .dy_TD = x, .dx_TD = dx, .dgain_D = dgain}, 1e-5);
    if (first.defined()) expect_same_bits(dgain, first);
    first = dgain;
  });
}

TEST(RmsNorm, without_tokens_has_a_zero_gain_gradient) {
  at::Tensor none = at::empty({0, 3}), gain = random({3}, at::kFloat), dgain = stale({3}, at::kFloat);
  rms_norm(none, gain, 1e-5, none);
  rms_norm_grad({.x_TD = none, .gain_D = gain, .dy_TD = none, .dx_TD = none, .dgain_D = dgain}, 1e-5);
  EXPECT_TRUE(dgain.eq(0).all().item<bool>());
  EXPECT_THROW(rms_norm(random({2, 4}, at::kFloat), gain, 1e-5, at::empty({2, 4})), ContractError);
}

}  // namespace
}  // namespace plait::kernels
