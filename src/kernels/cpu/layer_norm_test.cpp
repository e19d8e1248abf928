#include "kernels/cpu/layer_norm.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

at::Tensor by_loops(const LayerNorm& n, double eps) {
  const at::Tensor x = n.x_TD.to(at::kDouble), y = at::empty(x.sizes(), at::kDouble);
  const at::Tensor gain = n.gain_D.to(at::kDouble), bias = n.bias_D.to(at::kDouble);
  for (int64_t t = 0; t < x.size(0); ++t) {
    const at::Tensor centred = x[t].sub(x[t].mean());
    const double scale = std::sqrt(inner(centred, centred) / static_cast<double>(x.size(1)) + eps);
    y[t].copy_(centred.div(scale).mul(gain).add(bias));
  }
  return y;
}

TEST(LayerNorm, centres_a_row_and_divides_it_by_its_deviation) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const LayerNorm n{.x_TD = random({70, 131}, dtype, 1),
                      .gain_D = random({131}, dtype, 2),
                      .bias_D = random({131}, dtype, 3),
                      .y_TD = stale({70, 131}, dtype)};
    with_threads([&](int) {
      layer_norm(n, 1e-5);
      expect_close(n.y_TD, by_loops(n, 1e-5), dtype == at::kFloat ? 2e-6 : 1e-14);
    });
  }
}

TEST(LayerNorm, has_the_gradient_of_differences) {
  at::Tensor x = random({5, 9}, at::kDouble, 1), gain = random({9}, at::kDouble, 2), bias = random({9}, at::kDouble, 3),
             w = random({5, 9}, at::kDouble, 4);
  const at::Tensor y = at::empty({5, 9}, at::kDouble), dx = stale({5, 9}, at::kDouble), dgain = stale({9}, at::kDouble),
                   dbias = stale({9}, at::kDouble);
  layer_norm_grad({.x_TD = x, .gain_D = gain, .dy_TD = w, .dx_TD = dx, .dgain_D = dgain, .dbias_D = dbias}, 1e-2);
  const auto loss = [&] {
    layer_norm({x, gain, bias, y}, 1e-2);
    return inner(y, w);
  };
  expect_gradient(x, dx, loss);
  expect_gradient(gain, dgain, loss);
  expect_gradient(bias, dbias, loss);
}

TEST(LayerNorm, gradients_of_gain_and_bias_have_the_same_bits_with_one_and_two_threads) {
  const at::Tensor x = random({1000, 40}, at::kFloat, 1), gain = random({40}, at::kFloat, 2);
  at::Tensor first, first_bias;
  with_threads([&](int) {
    const at::Tensor dx = stale({1000, 40}, at::kFloat), dgain = stale({40}, at::kFloat),
                     dbias = stale({40}, at::kFloat);
    layer_norm_grad({x, gain, x, dx, dgain, dbias}, 1e-5);
    if (first.defined()) {
      expect_same_bits(dgain, first);
      expect_same_bits(dbias, first_bias);
    }
    first = dgain;
    first_bias = dbias;
  });
}

TEST(LayerNorm, without_tokens_has_zero_gradients_of_gain_and_bias) {
  const at::Tensor none = at::empty({0, 3}), gain = random({3}, at::kFloat), dgain = stale({3}, at::kFloat),
                   dbias = stale({3}, at::kFloat);
  layer_norm({none, gain, gain, none}, 1e-5);
  layer_norm_grad({none, gain, none, none, dgain, dbias}, 1e-5);
  EXPECT_TRUE(dgain.eq(0).all().item<bool>() && dbias.eq(0).all().item<bool>());
  EXPECT_THROW(layer_norm({random({2, 4}, at::kFloat), gain, gain, at::empty({2, 4})}, 1e-5), ContractError);
}

}  // namespace
}  // namespace plait::kernels
