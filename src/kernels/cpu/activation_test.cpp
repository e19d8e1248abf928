#include "kernels/cpu/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "kernels/cpu/simd.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

constexpr Act kActs[] = {Act::silu, Act::gelu, Act::relu, Act::gelu_tanh};

at::Tensor reference(Act act, const at::Tensor& x) {
  return act == Act::silu        ? at::silu(x)
         : act == Act::gelu      ? at::gelu(x)
         : act == Act::gelu_tanh ? at::gelu(x, "tanh")
                                 : at::relu(x);
}

TEST(Exponential, is_within_two_units_in_the_last_place) {
  for (double x = -87.2; x < 88.2; x += 0.00371) {
    float f = static_cast<float>(x);
    double exact = std::exp(static_cast<double>(f));
    ASSERT_NEAR(fast_exp(f) / exact, 1, 2.4e-7) << x;
  }
  EXPECT_EQ(fast_exp(0.f), 1.f);
  EXPECT_EQ(fast_exp(-1000.f), 0.f);
  EXPECT_EQ(fast_exp(-INFINITY), 0.f);
  EXPECT_GT(fast_exp(1000.f), 1e38f);
  EXPECT_TRUE(std::isnan(fast_exp(NAN)));
}

TEST(Activation, equals_torch_over_a_wide_range) {
  for (Act act : kActs)
    for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      at::Tensor x = at::linspace(-100, 100, 20011, at::kDouble).to(dtype), y = stale({20011}, dtype);
      with_threads([&](int) {
        activate(act, x, y);
        expect_close(y, reference(act, x.to(at::kDouble)), dtype == at::kFloat ? 4e-8 : 1e-14);
      });
    }
}

TEST(Activation, float32_keeps_small_values_accurate) {
  for (Act act : kActs) {
    at::Tensor x = at::linspace(-6, 6, 3001, at::kDouble).to(at::kFloat), y = stale({3001}, at::kFloat);
    activate(act, x, y);
    expect_close(y, reference(act, x.to(at::kDouble)), 1.5e-7);
  }
}

TEST(Activation, has_the_gradient_of_differences) {
  for (Act act : kActs) {
    at::Tensor x = random({37}, at::kDouble, 1), w = random({37}, at::kDouble, 2), y = at::empty({37}, at::kDouble);
    at::Tensor dx = stale({37}, at::kDouble);
    activate_grad(act, x, w, dx);
    expect_gradient(x, dx, [&] {
      activate(act, x, y);
      return inner(y, w);
    });
  }
}

TEST(Glu, multiplies_the_activated_gate_with_up) {
  for (Act act : kActs)
    for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      at::Tensor x = random({9, 2, 35}, dtype), y = stale({9, 35}, dtype);
      glu(act, x, y);
      expect_close(y, reference(act, x.select(1, 0)).mul(x.select(1, 1)), dtype == at::kFloat ? 1e-6 : 1e-14);
    }
}

TEST(Glu, has_the_gradient_of_differences) {
  for (Act act : kActs) {
    at::Tensor x = random({3, 2, 7}, at::kDouble, 1), w = random({3, 7}, at::kDouble, 2);
    at::Tensor y = at::empty({3, 7}, at::kDouble), dx = stale({3, 2, 7}, at::kDouble);
    glu_grad(act, x, w, dx);
    expect_gradient(x, dx, [&] {
      glu(act, x, y);
      return inner(y, w);
    });
  }
}

TEST(Glu, works_without_rows_and_refuses_other_shapes) {
  glu(Act::silu, at::empty({0, 2, 4}), at::empty({0, 4}));
  glu_grad(Act::silu, at::empty({0, 2, 4}), at::empty({0, 4}), at::empty({0, 2, 4}));
  EXPECT_THROW(glu(Act::silu, at::empty({3, 3, 4}), at::empty({3, 4})), ContractError);
  EXPECT_THROW(glu(Act::silu, at::empty({3, 2, 4}), at::empty({3, 5})), ContractError);
}

TEST(Activation, writes_a_gradient_over_its_input) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor x = random({5, 2, 83}, dtype, 1), dy = random({5, 83}, dtype, 2), dx = stale({5, 2, 83}, dtype);
    glu_grad(Act::silu, x, dy, dx);
    glu_grad(Act::silu, x, dy, x);
    expect_same_bits(x, dx);
    at::Tensor z = random({830}, dtype, 3), dz = stale({830}, dtype), g = random({830}, dtype, 4);
    activate_grad(Act::gelu, z, g, dz);
    activate_grad(Act::gelu, z, g, z);
    expect_same_bits(z, dz);
  }
}

}  // namespace
}  // namespace plait::kernels
