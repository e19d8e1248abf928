// For the tests of kernels: seeded tensors, comparison, and gradients by central differences in float64.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace plait::kernels {

// Normal deviates that depend on the shape and the seed only.
at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype, uint64_t seed = 1);

// int64, row-major.
at::Tensor integers(at::IntArrayRef shape, const std::vector<int64_t>& values);
at::Tensor numbers(at::IntArrayRef shape, const std::vector<double>& values, at::ScalarType dtype = at::kFloat);

// The logits [8, 4] of the golden vectors of the gates.
at::Tensor golden_logits(at::ScalarType dtype = at::kFloat);

// A tensor full of rubbish: what a kernel leaves unwritten shows.
at::Tensor stale(at::IntArrayRef shape, at::ScalarType dtype);

std::vector<int64_t> values(const at::Tensor& integers);

// max |a - b| <= tolerance * max(1, max |b|), and neither holds a NaN; shapes must agree.
void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance);
void expect_same_bits(const at::Tensor& a, const at::Tensor& b);

// dx[i] against (loss(x + h e_i) - loss(x - h e_i)) / 2h for every element of x (float64, contiguous).
void expect_gradient(const at::Tensor& x, const at::Tensor& dx, const std::function<double()>& loss);

// sum of a * b in float64.
double inner(const at::Tensor& a, const at::Tensor& b);

// Runs f with one thread and with two.
void with_threads(const std::function<void(int)>& f);

}  // namespace plait::kernels
