#include "kernels/testing/oracle.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace plait::kernels {

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype, uint64_t seed) {
  at::Tensor x = at::empty(shape, at::kDouble);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  double* p = x.mutable_data_ptr<double>();
  for (int64_t i = 0; i < x.numel(); ++i) p[i] = normal(engine);
  return x.to(dtype);
}

at::Tensor integers(at::IntArrayRef shape, const std::vector<int64_t>& values) {
  at::Tensor x = at::empty(shape, at::kLong);
  std::copy(values.begin(), values.end(), x.mutable_data_ptr<int64_t>());
  return x;
}

at::Tensor numbers(at::IntArrayRef shape, const std::vector<double>& values, at::ScalarType dtype) {
  at::Tensor x = at::empty(shape, at::kDouble);
  std::copy(values.begin(), values.end(), x.mutable_data_ptr<double>());
  return x.to(dtype);
}

at::Tensor golden_logits(at::ScalarType dtype) {
  std::vector<double> l;
  for (int s = 0; s < 8; ++s)
    for (int e = 0; e < 4; ++e) l.push_back(((7 * s + 3 * e * e + 5 * s * e) % 11 - 5) / 4.0 + 0.013 * s + 0.037 * e);
  return numbers({8, 4}, l, dtype);
}

at::Tensor stale(at::IntArrayRef shape, at::ScalarType dtype) {
  if (dtype == at::kLong) return at::full(shape, 123456789, dtype);
  return at::full(shape, std::numeric_limits<double>::quiet_NaN(), dtype);
}

std::vector<int64_t> values(const at::Tensor& integers) {
  const int64_t* p = integers.const_data_ptr<int64_t>();
  return {p, p + integers.numel()};
}

void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  ASSERT_EQ(a.sizes(), b.sizes());
  at::Tensor x = a.to(at::kDouble).contiguous(), y = b.to(at::kDouble).contiguous();
  const double *p = x.const_data_ptr<double>(), *q = y.const_data_ptr<double>();
  double scale = 1;
  for (int64_t i = 0; i < y.numel(); ++i) scale = std::max(scale, std::abs(q[i]));
  for (int64_t i = 0; i < x.numel(); ++i)
    ASSERT_LE(std::abs(p[i] - q[i]), tolerance * scale) << "element " << i << ": " << p[i] << " against " << q[i];
}

void expect_same_bits(const at::Tensor& a, const at::Tensor& b) { EXPECT_TRUE(at::equal(a, b)); }

void expect_gradient(const at::Tensor& x, const at::Tensor& dx, const std::function<double()>& loss) {
  ASSERT_EQ(x.numel(), dx.numel());
  double* p = x.mutable_data_ptr<double>();
  const double* g = dx.const_data_ptr<double>();
  constexpr double kStep = 1e-5;
  int threads = at::get_num_threads();
  at::set_num_threads(1);  // tiny tensors, thousands of calls
  for (int64_t i = 0; i < x.numel(); ++i) {
    double kept = p[i];
    p[i] = kept + kStep;
    double up = loss();
    p[i] = kept - kStep;
    double down = loss();
    p[i] = kept;
    double slope = (up - down) / (2 * kStep);
    ASSERT_NEAR(g[i], slope, 2e-8 * std::max(1.0, std::abs(slope))) << "element " << i;
  }
  at::set_num_threads(threads);
}

double inner(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor x = a.to(at::kDouble).contiguous(), y = b.to(at::kDouble).contiguous();
  const double *p = x.const_data_ptr<double>(), *q = y.const_data_ptr<double>();
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) sum += p[i] * q[i];
  return sum;
}

void with_threads(const std::function<void(int)>& f) {
  int before = at::get_num_threads();
  for (int threads : {1, 2}) {
    at::set_num_threads(threads);
    f(threads);
  }
  at::set_num_threads(before);
}

}  // namespace plait::kernels
