#include "kernels/cpu/attention.h"

#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

struct Example {
  at::Tensor q, k, v, o, lse, w, dq, dk, dv;

  Example(int64_t b, int64_t s, std::array<int64_t, 3> hja, at::ScalarType dtype) {
    auto [h, j, a] = hja;
    q = random({b, s, h, a}, dtype, 1);
    k = random({b, s, j, a}, dtype, 2);
    v = random({b, s, j, a}, dtype, 3);
    w = random({b, s, h, a}, dtype, 4);
    o = stale({b, s, h, a}, dtype);
    lse = stale({b, h, s}, dtype);
    dq = stale({b, s, h, a}, dtype);
    dk = stale({b, s, j, a}, dtype);
    dv = stale({b, s, j, a}, dtype);
  }
  void forward() const { attention({.q_BSHA = q, .k_BSJA = k, .v_BSJA = v, .o_BSHA = o, .lse_BHS = lse}); }
  void backward() const {
    attention_grad({.q_BSHA = q,
                    .k_BSJA = k,
                    .v_BSJA = v,
                    .o_BSHA = o,
                    .lse_BHS = lse,
                    .do_BSHA = w,
                    .dq_BSHA = dq,
                    .dk_BSJA = dk,
                    .dv_BSJA = dv});
  }
};

// softmax(q k / sqrt(A)) v over the keys not after each query, by loops in float64.
at::Tensor by_loops(const Example& x) {
  at::Tensor q = x.q.to(at::kDouble), k = x.k.to(at::kDouble), v = x.v.to(at::kDouble);
  at::Tensor o = at::zeros_like(q);
  int64_t share = q.size(2) / k.size(2);
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(2); ++h)
      for (int64_t s = 0; s < q.size(1); ++s) {
        at::Tensor keys = k[b].slice(0, 0, s + 1).select(1, h / share),
                   seen = v[b].slice(0, 0, s + 1).select(1, h / share);
        at::Tensor score = keys.mul(q[b][s][h]).sum(1).div(std::sqrt(static_cast<double>(q.size(3)))).exp();
        o[b][s][h].copy_(seen.mul(score.div(score.sum()).unsqueeze(1)).sum(0));
      }
  return o;
}

TEST(Attention, equals_loops_over_queries_and_the_keys_before_them) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble})
    for (int64_t kv_heads : {4, 2, 1}) {
      Example x(2, 70, {4, kv_heads, 12}, dtype);
      with_threads([&](int) {
        x.forward();
        expect_close(x.o, by_loops(x), dtype == at::kFloat ? 2e-6 : 1e-13);
      });
    }
}

TEST(Attention, has_the_gradient_of_differences) {
  Example x(2, 6, {4, 2, 3}, at::kDouble);
  x.forward();
  x.backward();
  Example probe = x;
  probe.o = stale(x.o.sizes(), at::kDouble);
  probe.lse = stale(x.lse.sizes(), at::kDouble);
  auto loss = [&] {
    probe.forward();
    return inner(probe.o, probe.w);
  };
  expect_gradient(x.q, x.dq, loss);
  expect_gradient(x.k, x.dk, loss);
  expect_gradient(x.v, x.dv, loss);
}

// Several blocks of queries: along a random direction the loss changes as the gradient says.
TEST(Attention, has_the_gradient_of_differences_over_several_blocks) {
  Example x(1, 200, {2, 1, 16}, at::kDouble);
  x.forward();
  x.backward();
  auto expect_slope = [&](at::Tensor& value, const at::Tensor& gradient) {
    at::Tensor direction = random(value.sizes(), at::kDouble, 9), kept = value;
    auto loss = [&](double h) {
      value = kept.add(direction.mul(h));
      x.forward();
      return inner(x.o, x.w);
    };
    double slope = (loss(1e-6) - loss(-1e-6)) / 2e-6;
    value = kept;
    EXPECT_NEAR(slope, inner(gradient, direction), 1e-6);
  };
  expect_slope(x.q, x.dq);
  expect_slope(x.k, x.dk);
  expect_slope(x.v, x.dv);
}

TEST(Attention, gradients_in_float32_agree_with_float64_and_between_thread_counts) {
  Example narrow(2, 150, {4, 2, 16}, at::kFloat), wide(2, 150, {4, 2, 16}, at::kDouble);
  wide.forward();
  wide.backward();
  at::Tensor first;
  with_threads([&](int) {
    narrow.forward();
    narrow.backward();
    expect_close(narrow.dq, wide.dq, 5e-6);
    expect_close(narrow.dk, wide.dk, 5e-6);
    expect_close(narrow.dv, wide.dv, 5e-6);
    if (first.defined()) expect_same_bits(narrow.dk, first);
    first = narrow.dk.clone();
  });
}

TEST(Attention, large_scores_do_not_overflow) {
  Example x(1, 5, {1, 1, 4}, at::kFloat);
  x.q.mul_(1e3);
  x.k.mul_(1e3);
  x.forward();
  x.backward();
  EXPECT_TRUE(x.o.isfinite().all().item<bool>());
  EXPECT_TRUE(x.dk.isfinite().all().item<bool>());
}

TEST(Attention, works_without_sequences_and_refuses_heads_that_do_not_divide) {
  Example(0, 4, {2, 1, 4}, at::kFloat).forward();
  Example(0, 4, {2, 1, 4}, at::kFloat).backward();
  EXPECT_THROW(Example(1, 4, {3, 2, 4}, at::kFloat).forward(), ContractError);
}

}  // namespace
}  // namespace plait::kernels
