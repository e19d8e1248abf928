#include "kernels/cpu/token_gate.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

TEST(Bias, is_added_to_every_row_and_has_their_sum_for_gradient) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor x = random({150, 37}, dtype, 1), b = random({37}, dtype, 2), y = stale({150, 37}, dtype),
                     db = stale({37}, dtype);
    with_threads([&](int) {
      add_bias(x, b, y);
      bias_grad(x, db);
      EXPECT_TRUE(y.equal(x.add(b)));
      expect_close(db, x.to(at::kDouble).sum(0), dtype == at::kFloat ? 1e-5 : 1e-13);
    });
    add_bias(x, b, x);
    EXPECT_TRUE(x.equal(y)) << "in place";
  }
  const at::Tensor none = stale({3}, at::kFloat);
  bias_grad(at::empty({0, 3}), none);
  EXPECT_TRUE(none.eq(0).all().item<bool>());
}

TEST(Gated, multiplies_a_token_by_the_sigmoid_of_its_gate) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor x = random({70, 131}, dtype, 1), z = random({70, 1}, dtype, 2), y = stale({70, 131}, dtype);
    with_threads([&](int) {
      gated(x, z, y);
      expect_close(y, x.to(at::kDouble).mul(z.to(at::kDouble).sigmoid()), dtype == at::kFloat ? 5e-7 : 1e-14);
    });
  }
}

TEST(Gated, has_the_gradient_of_differences) {
  at::Tensor x = random({5, 9}, at::kDouble, 1), z = random({5, 1}, at::kDouble, 2), w = random({5, 9}, at::kDouble, 3);
  at::Tensor y = at::empty({5, 9}, at::kDouble), dx = stale({5, 9}, at::kDouble), dz = stale({5, 1}, at::kDouble);
  gated_grad({.x_TD = x, .z_T = z, .dy_TD = w, .dx_TD = dx, .dz_T = dz});
  const auto loss = [&] {
    gated(x, z, y);
    return inner(y, w);
  };
  expect_gradient(x, dx, loss);
  expect_gradient(z, dz, loss);
  EXPECT_THROW(gated(x, random({4, 1}, at::kDouble, 2), y), ContractError);
}

TEST(Clip, keeps_what_lies_within_and_passes_its_gradient) {
  const at::Tensor x = random({4000}, at::kFloat, 1), dy = random({4000}, at::kFloat, 2), y = stale({4000}, at::kFloat),
                   dx = stale({4000}, at::kFloat);
  clip(x, 0.5, y);
  clip_grad(x, dy, 0.5, dx);
  EXPECT_TRUE(y.equal(x.clamp(-0.5, 0.5)));
  EXPECT_TRUE(dx.equal(dy.mul(x.abs().le(0.5))));
  EXPECT_GT(x.abs().gt(0.5).sum().item<int64_t>(), 100) << "some are clipped";
}

}  // namespace
}  // namespace plait::kernels
