#include "kernels/cpu/products.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

// c[m,n] = a b by three loops in float64.
at::Tensor by_loops(const at::Tensor& a, const at::Tensor& b, Layout layout) {
  at::Tensor x = (layout == Layout::tn ? a.t() : a).to(at::kDouble).contiguous();
  at::Tensor y = (layout == Layout::nt ? b.t() : b).to(at::kDouble).contiguous();
  int64_t m = x.size(0), k = x.size(1), n = y.size(1);
  at::Tensor c = at::empty({m, n}, at::kDouble);
  auto *p = x.const_data_ptr<double>(), *q = y.const_data_ptr<double>();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += p[i * k + l] * q[l * n + j];
      c.mutable_data_ptr<double>()[i * n + j] = sum;
    }
  return c;
}

struct Shape {
  int64_t m, n, k;
};

struct Operands {
  at::Tensor a, b;
};

Operands operands(const Shape& s, Layout layout, at::ScalarType dtype) {
  at::Tensor a = layout == Layout::tn ? random({s.k, s.m}, dtype, 1) : random({s.m, s.k}, dtype, 1);
  at::Tensor b = layout == Layout::nt ? random({s.n, s.k}, dtype, 2) : random({s.k, s.n}, dtype, 2);
  return {a, b};
}

constexpr Layout kLayouts[] = {Layout::nn, Layout::nt, Layout::tn};
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble};
double tolerance(at::ScalarType dtype) { return dtype == at::kFloat ? 3e-6 : 1e-14; }

class Products : public ::testing::TestWithParam<Shape> {};

TEST_P(Products, equal_three_loops_in_every_layout) {
  const Shape& s = GetParam();
  for (Layout layout : kLayouts)
    for (at::ScalarType dtype : kTypes) {
      Operands x = operands(s, layout, dtype);
      at::Tensor oracle = by_loops(x.a, x.b, layout);
      with_threads([&](int) {
        at::Tensor c = stale({s.m, s.n}, dtype);
        matmul(x.a, x.b, layout, c);
        expect_close(c, oracle, tolerance(dtype));
        matmul(x.a, x.b, layout, c, Into::accumulate);
        expect_close(c, oracle.mul(2), tolerance(dtype));
      });
    }
}

// Around the sizes of tiles, panels and blocks; the last two need several blocks of k and of columns.
INSTANTIATE_TEST_SUITE_P(Sizes, Products,
                         ::testing::Values(Shape{1, 1, 1}, Shape{14, 32, 16}, Shape{15, 33, 17}, Shape{29, 16, 5},
                                           Shape{3, 7, 600}, Shape{230, 70, 33}, Shape{5, 1100, 40}, Shape{0, 3, 2},
                                           Shape{3, 0, 2}, Shape{3, 2, 0}, Shape{40, 9, 1537}));

TEST(Matmul, gives_a_row_the_same_bits_whatever_stands_beside_it) {
  for (Layout layout : {Layout::nn, Layout::nt}) {
    Operands x = operands({100, 90, 1100}, layout, at::kFloat);
    at::Tensor all = at::empty({100, 90}), some = at::empty({3, 90});
    with_threads([&](int) {
      matmul(x.a, x.b, layout, all);
      matmul(x.a.slice(0, 40, 43), x.b, layout, some);
      expect_same_bits(some, all.slice(0, 40, 43));
    });
  }
}

TEST(Matmul, gives_the_same_bits_with_one_and_two_threads) {
  for (Layout layout : kLayouts) {
    Operands x = operands({300, 200, 700}, layout, at::kFloat);
    at::Tensor first;
    with_threads([&](int) {
      at::Tensor c = stale({300, 200}, at::kFloat);
      matmul(x.a, x.b, layout, c);
      if (first.defined()) expect_same_bits(c, first);
      first = c;
    });
  }
}

TEST(Matmul, reads_and_writes_views_with_rows_apart) {
  at::Tensor a = random({20, 3, 30}, at::kDouble), b = random({30, 50}, at::kDouble, 2);
  at::Tensor out = stale({20, 2, 50}, at::kDouble);
  matmul(a.select(1, 1), b, Layout::nn, out.select(1, 0));
  expect_close(out.select(1, 0), by_loops(a.select(1, 1), b, Layout::nn), 1e-14);
  EXPECT_TRUE(out.select(1, 1).isnan().all().item<bool>());
}

TEST(Matmul, refuses_shapes_and_types_that_do_not_fit) {
  at::Tensor a = random({4, 3}, at::kFloat), b = random({3, 5}, at::kFloat), out = at::empty({4, 5});
  EXPECT_THROW(matmul(a, b, Layout::nt, out), ContractError);
  EXPECT_THROW(matmul(a, b, Layout::nn, at::empty({5, 4})), ContractError);
  EXPECT_THROW(matmul(a, b.to(at::kDouble), Layout::nn, out), ContractError);
  EXPECT_THROW(matmul(a, b, Layout::nn, at::empty({5, 4}).t()), ContractError);
}

TEST(Bmm, is_one_product_per_item) {
  for (Layout layout : kLayouts) {
    Operands x[3];
    at::Tensor a, b, out = stale({3, 17, 20}, at::kDouble);
    for (int i = 0; i < 3; ++i) {
      x[i] = operands({17, 20, 9}, layout, at::kDouble);
      x[i].a.mul_(i + 1);
      if (i == 0) a = stale({3, x[0].a.size(0), x[0].a.size(1)}, at::kDouble);
      if (i == 0) b = stale({3, x[0].b.size(0), x[0].b.size(1)}, at::kDouble);
      a[i].copy_(x[i].a);
      b[i].copy_(x[i].b);
    }
    bmm(a, b, layout, out);
    for (int i = 0; i < 3; ++i) expect_close(out[i], by_loops(x[i].a, x[i].b, layout), 1e-13);
  }
}

// Experts with many, no, one and a few rows.
const std::vector<int64_t> kCounts = {37, 0, 1, 5};
constexpr int64_t kRows = 43, kIn = 24, kOut = 70;

TEST(Grouped, multiplies_the_rows_of_an_expert_with_its_weight) {
  for (at::ScalarType dtype : kTypes)
    for (Layout layout : {Layout::nn, Layout::nt}) {
      at::Tensor a = random({kRows, kIn}, dtype, 1);
      at::Tensor w = layout == Layout::nt ? random({4, kOut, kIn}, dtype, 2) : random({4, kIn, kOut}, dtype, 2);
      with_threads([&](int) {
        at::Tensor c = stale({kRows, kOut}, dtype);
        grouped({.a = a, .b = w, .row_counts = kCounts, .out = c}, layout);
        for (int64_t e = 0, row = 0; e < 4; row += kCounts[e++])
          expect_close(c.slice(0, row, row + kCounts[e]), by_loops(a.slice(0, row, row + kCounts[e]), w[e], layout),
                       tolerance(dtype));
      });
    }
}

TEST(Grouped, gives_idle_experts_a_zero_weight_gradient) {
  at::Tensor dy = random({kRows, kOut}, at::kDouble, 1), x = random({kRows, kIn}, at::kDouble, 2);
  with_threads([&](int) {
    at::Tensor dw = stale({4, kOut, kIn}, at::kDouble);
    grouped({.a = dy, .b = x, .row_counts = kCounts, .out = dw}, Layout::tn);
    for (int64_t e = 0, row = 0; e < 4; row += kCounts[e++])
      expect_close(dw[e], by_loops(dy.slice(0, row, row + kCounts[e]), x.slice(0, row, row + kCounts[e]), Layout::tn),
                   1e-14);
    EXPECT_TRUE(dw[1].eq(0).all().item<bool>());
    at::Tensor once = dw.clone();
    grouped({.a = dy, .b = x, .row_counts = kCounts, .out = dw}, Layout::tn, Into::accumulate);
    expect_close(dw, once.mul(2), 1e-14);
  });
}

TEST(Grouped, refuses_counts_that_do_not_sum_to_the_rows) {
  at::Tensor a = random({5, 3}, at::kFloat), w = random({2, 4, 3}, at::kFloat), c = at::empty({5, 4});
  std::vector<int64_t> short_by_one = {2, 2}, one_expert = {5};
  EXPECT_THROW(grouped({.a = a, .b = w, .row_counts = short_by_one, .out = c}, Layout::nt), ContractError);
  EXPECT_THROW(grouped({.a = a, .b = w, .row_counts = one_expert, .out = c}, Layout::nt), ContractError);
}

}  // namespace
}  // namespace plait::kernels
