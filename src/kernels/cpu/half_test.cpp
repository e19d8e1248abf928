// Kernels on numbers of 2 bytes: each computes as the one of float32 does and rounds its result once.
#include "kernels/cpu/half.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/errors.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/products.h"
#include "kernels/cpu/rope.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

constexpr at::ScalarType kHalves[] = {at::kBFloat16, at::kHalf};

// A kernel on values of 2 bytes: `compute(type, operands)` gives its results. The first `halves` of the operands and of
// the results have 2 bytes, the others 4.
struct Case {
  std::vector<at::Tensor> operands;
  size_t halves_in, halves_out;
  std::function<std::vector<at::Tensor>(at::ScalarType, const std::vector<at::Tensor>&)> compute;
};

void expect_rounded_once(const Case& c) {
  for (at::ScalarType half : kHalves) {
    std::vector<at::Tensor> in, wide;
    for (size_t i = 0; i < c.operands.size(); ++i) {
      in.push_back(i < c.halves_in ? c.operands[i].to(half) : c.operands[i]);
      wide.push_back(i < c.halves_in ? in[i].to(at::kFloat) : in[i]);
    }
    with_threads([&](int) {
      const std::vector<at::Tensor> got = c.compute(half, in), want = c.compute(at::kFloat, wide);
      for (size_t i = 0; i < got.size(); ++i) expect_same_bits(got[i], i < c.halves_out ? want[i].to(half) : want[i]);
    });
  }
}

at::Tensor real(at::IntArrayRef shape, uint64_t seed) { return random(shape, at::kFloat, seed); }

TEST(Half, widens_and_narrows_to_nearest) {
  const at::Tensor x = numbers({9}, {0, -0.0, 1, 1 + 1. / 512, 1 + 3. / 512, 65504, 65520, 1e-7, INFINITY});
  for (at::ScalarType half : kHalves) {
    at::Tensor y = stale({9}, half), back = stale({9}, at::kFloat);
    cast(x, y);
    expect_same_bits(y, x.to(half));
    cast(y, back);
    expect_same_bits(back, y.to(at::kFloat));
    const at::Tensor many = real({40001}, 1), cut = at::empty({40001}, half);
    cast(many, cut);
    expect_same_bits(cut, many.to(half));
  }
  at::Tensor nan = stale({3}, at::kBFloat16), from = stale({3}, at::kFloat);
  cast(from, nan);
  EXPECT_TRUE(std::isnan(nan[2].item<float>()));
  EXPECT_THROW(cast(from, at::empty({3})), ContractError);
}

TEST(Half, norm_rounds_once) {
  expect_rounded_once({{real({70, 131}, 1), real({131}, 2)}, 1, 1, [](at::ScalarType t, const auto& in) {
                         at::Tensor y = stale({70, 131}, t);
                         rms_norm(in[0], in[1], 1e-5, y);
                         return std::vector{y};
                       }});
  expect_rounded_once(
      {{real({70, 131}, 1), real({70, 131}, 3), real({131}, 2)}, 2, 1, [](at::ScalarType t, const auto& in) {
         at::Tensor dx = stale({70, 131}, t), dgain = stale({131}, at::kFloat);
         rms_norm_grad({.x_TD = in[0], .gain_D = in[2], .dy_TD = in[1], .dx_TD = dx, .dgain_D = dgain}, 1e-5);
         return std::vector{dx, dgain};
       }});
}

TEST(Half, activations_round_once) {
  for (Act act : {Act::silu, Act::gelu, Act::relu}) {
    expect_rounded_once({{real({20, 2, 70}, 1), real({20, 70}, 2), real({30001}, 3), real({30001}, 4)},
                         4,
                         4,
                         [act](at::ScalarType t, const auto& in) {
                           std::vector<at::Tensor> out = {stale({20, 70}, t), stale({20, 2, 70}, t), stale({30001}, t),
                                                          stale({30001}, t)};
                           glu(act, in[0], out[0]);
                           glu_grad(act, in[0], in[1], out[1]);
                           activate(act, in[2], out[2]);
                           activate_grad(act, in[2], in[3], out[3]);
                           return out;
                         }});
  }
}

TEST(Half, rope_rounds_once) {
  expect_rounded_once({{real({2, 7, 3, 20}, 1)}, 1, 1, [](at::ScalarType t, const auto& in) {
                         at::Tensor y = stale({2, 7, 3, 20}, t);
                         rope(in[0], rope_table(7, 20, 1e4, t), Direction::inverse, y);
                         return std::vector{y};
                       }});
}

TEST(Half, attention_rounds_once) {
  const auto q = real({2, 70, 4, 12}, 1), k = real({2, 70, 2, 12}, 2), v = real({2, 70, 2, 12}, 3);
  expect_rounded_once({{q, k, v}, 3, 1, [](at::ScalarType t, const auto& in) {
                         at::Tensor o = stale({2, 70, 4, 12}, t), lse = stale({2, 4, 70}, at::kFloat);
                         attention({in[0], in[1], in[2], o, lse});
                         return std::vector{o, lse};
                       }});
  at::Tensor o = stale({2, 70, 4, 12}, at::kFloat), lse = stale({2, 4, 70}, at::kFloat);
  attention({q, k, v, o, lse});
  expect_rounded_once(
      {{q, k, v, o, real({2, 70, 4, 12}, 4), lse}, 5, 3, [](at::ScalarType t, const auto& in) {
         at::Tensor dq = stale({2, 70, 4, 12}, t), dk = stale({2, 70, 2, 12}, t), dv = stale({2, 70, 2, 12}, t);
         attention_grad({in[0], in[1], in[2], in[3], in[5], in[4], dq, dk, dv});
         return std::vector{dq, dk, dv};
       }});
}

TEST(Half, embedding_rounds_once) {
  const at::Tensor ids = integers({6}, {3, 0, 9, 3, 3, 5});
  expect_rounded_once({{real({6, 70}, 1), real({6, 70}, 2)}, 2, 2, [&](at::ScalarType t, const auto& in) {
                         at::Tensor y = stale({6, 70}, t), table = stale({6, 70}, t);
                         embed(in[0], ids, 1, y);
                         embed_grad(in[1], ids, 1, table);
                         return std::vector{y, table};
                       }});
}

TEST(Half, dispatch_rounds_once) {
  const at::Tensor row = integers({4, 2}, {3, 0, -1, 2, 1, -1, -1, -1});
  expect_rounded_once(
      {{real({4, 70}, 1), real({5, 70}, 2), real({4, 2}, 3)}, 2, 4, [&](at::ScalarType t, const auto& in) {
         std::vector<at::Tensor> out = {stale({5, 70}, t), stale({5, 70}, t), stale({4, 70}, t), stale({4, 70}, t),
                                        stale({4, 2}, at::kFloat)};
         encode(in[0], row, out[0]);
         encode_weighted(in[0], in[2], row, out[1]);
         decode(in[1], row, out[2]);
         decode_weighted(in[1], in[2], row, out[3]);
         pair(in[0], in[1], row, out[4]);
         return out;
       }});
}

TEST(Half, sums_round_once_and_add_to_float32) {
  expect_rounded_once(
      {{real({30001}, 1), real({30001}, 2), real({30001}, 3)}, 2, 2, [](at::ScalarType t, const auto& in) {
         at::Tensor sum = stale({30001}, t), scaled = stale({30001}, t), fine = in[2].clone(),
                    squares = stale({}, at::kDouble);
         add(in[0], in[1], sum);
         scale(in[0], .3, scaled);
         accumulate(fine, in[0]);
         sum_squares(in[0], squares);
         return std::vector{sum, scaled, fine, squares};
       }});
}

TEST(Half, updates_read_a_gradient_of_either_size_in_tiles_of_any_size) {
  const at::Tensor one = numbers({}, {.7}, at::kDouble), start = real({20011}, 1);
  for (int64_t tile : {int64_t{1000}, kTile}) {
    expect_rounded_once({{real({20011}, 2), real({20011}, 3)}, 1, 0, [&](at::ScalarType, const auto& in) {
                           at::Tensor p = start.clone(), m = in[1].clone(), v = in[1].square(), q = start.clone();
                           adamw({.lr = 1e-2, .weight_decay = .1, .step = 4, .tile = tile}, one, p, in[0], {m, v});
                           sgd({.lr = 1e-2, .weight_decay = .1, .tile = tile}, one, q, in[0]);
                           return std::vector{p, m, v, q};
                         }});
  }
}

TEST(AdamW, gives_the_same_bits_in_tiles_of_any_size) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor one = numbers({}, {1}, at::kDouble), grad = random({20011}, at::kFloat, 2).to(type);
    std::vector<at::Tensor> first;
    for (int64_t tile : {kTile, int64_t{1000}, int64_t{1013}, int64_t{7}}) {
      at::Tensor p = real({20011}, 1), m = real({20011}, 3), v = real({20011}, 4).square();
      adamw({.lr = 1e-2, .weight_decay = .1, .step = 4, .tile = tile}, one, p, grad, {m, v});
      if (first.empty()) first = {p, m, v};
      expect_same_bits(p, first[0]);
      expect_same_bits(m, first[1]);
      expect_same_bits(v, first[2]);
    }
    EXPECT_THROW(adamw({.lr = 1, .step = 1, .tile = 0}, one, first[0], grad, {first[1], first[2]}), ContractError);
  }
}

void expect_product(at::ScalarType half, Layout layout, std::array<int64_t, 3> mnk) {
  const auto [m, n, k] = mnk;
  const at::Tensor
      a = random(layout == Layout::tn ? at::IntArrayRef{k, m} : at::IntArrayRef{m, k}, at::kFloat, 1).to(half),
      b = random(layout == Layout::nt ? at::IntArrayRef{n, k} : at::IntArrayRef{k, n}, at::kFloat, 2).to(half);
  at::Tensor c = stale({m, n}, half), want = stale({m, n}, at::kFloat);
  matmul(a, b, layout, c);
  matmul(a.to(at::kFloat), b.to(at::kFloat), layout, want);
  expect_close(c, want, half == at::kHalf ? 1e-3 : 8e-3);
}

TEST(Half, products_of_every_layout_add_up_in_float32) {
  for (at::ScalarType half : kHalves)
    for (Layout layout : {Layout::nn, Layout::nt, Layout::tn})
      for (auto mnk : {std::array<int64_t, 3>{70, 33, 1500}, {300, 1100, 40}, {1, 5, 3}})
        expect_product(half, layout, mnk);
}

TEST(Half, grouped_products_take_each_expert_its_rows) {
  const std::vector<int64_t> counts = {3, 0, 5};
  for (at::ScalarType half : kHalves) {
    const at::Tensor a = real({8, 6}, 1).to(half), w = real({3, 4, 6}, 2).to(half), d = real({8, 4}, 3).to(half);
    at::Tensor y = stale({8, 4}, half), dw = stale({3, 4, 6}, half), y32 = stale({8, 4}, at::kFloat),
               dw32 = stale({3, 4, 6}, at::kFloat);
    const auto f = [](const at::Tensor& x) { return x.to(at::kFloat); };
    grouped({.a = a, .b = w, .row_counts = counts, .out = y}, Layout::nt);
    grouped({.a = f(a), .b = f(w), .row_counts = counts, .out = y32}, Layout::nt);
    grouped({.a = d, .b = a, .row_counts = counts, .out = dw}, Layout::tn);
    grouped({.a = f(d), .b = f(a), .row_counts = counts, .out = dw32}, Layout::tn);
    expect_close(y, y32, 8e-3);
    expect_close(dw, dw32, 8e-3);
    EXPECT_TRUE(dw[1].eq(0).all().item<bool>());
  }
}

}  // namespace
}  // namespace plait::kernels
