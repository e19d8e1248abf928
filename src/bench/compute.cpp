#include "bench/compute.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu/products.h"
#include "run/executor.h"
#include "schedule/builder.h"

namespace plait {
namespace {

constexpr int64_t kMostRows = 1024, kMostExperts = 4;

// Rows of some experts and their matrices of N x K.
struct Experts {
  std::vector<int64_t> rows;
  at::Tensor x_RK, y_RN, w_ENK, w_EKN;

  Experts(int64_t each, const ComputeRequest::Matrix& matrix) {
    const int64_t N = matrix.columns, K = matrix.inner, E = std::clamp<int64_t>(kMostRows / each, 1, kMostExperts);
    rows.assign(static_cast<size_t>(E), each);
    x_RK = at::full({E * each, K}, 1e-3, at::kFloat);
    y_RN = at::full({E * each, N}, 1e-3, at::kFloat);
    w_ENK = at::full({E, N, K}, 1e-3, at::kFloat);
    w_EKN = at::full({E, K, N}, 1e-3, at::kFloat);
  }

  double flops() const { return 2.0 * static_cast<double>(x_RK.size(0) * w_ENK.size(1) * w_ENK.size(2)); }
};

ProductPoint point(int64_t rows, int64_t columns, int64_t inner, double flops) {
  return {static_cast<double>(rows), static_cast<double>(columns), static_cast<double>(inner), flops};
}

}  // namespace

std::vector<ProductPoint> measure_products(GroupClock& clock, int64_t rows, ComputeRequest::Matrix matrix,
                                           Repeats repeats) {
  const Experts e(rows, matrix);
  const at::Tensor y_RN = at::zeros_like(e.y_RN), w_ENK = at::zeros_like(e.w_ENK);
  const double through = clock.median(
      [&] {
        kernels::grouped({.a = e.x_RK, .b = e.w_ENK, .row_counts = e.rows, .out = y_RN}, kernels::Layout::nt);
        kernels::grouped({.a = e.x_RK, .b = e.w_EKN, .row_counts = e.rows, .out = y_RN}, kernels::Layout::nn);
      },
      repeats);
  const double gradient = clock.median(
      [&] { kernels::grouped({.a = e.y_RN, .b = e.x_RK, .row_counts = e.rows, .out = w_ENK}, kernels::Layout::tn); },
      repeats);
  return {point(rows, matrix.columns, matrix.inner, 2 * e.flops() / through),
          point(matrix.columns, matrix.inner, rows, e.flops() / gradient)};
}

double memory_rate(GroupClock& clock, int64_t floats, Repeats repeats) {
  const at::Tensor a = at::zeros({floats}), b = at::zeros({floats}), sum = at::zeros({floats});
  const float *x = a.const_data_ptr<float>(), *y = b.const_data_ptr<float>();
  float* to = sum.mutable_data_ptr<float>();
  const auto add = [&] {
    at::parallel_for(0, floats, 1 << 15, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = x[i] + y[i];
    });
  };
  return 12.0 * static_cast<double>(floats) / clock.median(add, repeats);
}

double op_start(GroupClock& clock, Repeats repeats) {
  constexpr int kOps = 256;
  Builder list{Mesh()};
  const ValueId x = list.leaf(LeafKind::data, "x", std::vector<Dim>{{"T", 8}});
  ValueId last = x;
  for (int i = 0; i < kOps; ++i) last = list.add(Add{}, {last, x});
  list.schedule().outputs = {last};
  Executor executor(list.take(), {});
  const at::Tensor value = at::full({8}, 1.0, at::kFloat);
  const Feed feed = [&](const std::string&, int) { return value; };
  return clock.median([&] { executor.run(feed); }, repeats) / kOps;
}

int num_parts(const ComputeRequest& request) { return static_cast<int>(request.matrices.size()) + 1; }

void measure_compute(GroupClock& clock, const ComputeRequest& request, Measured& measured) {
  const auto begin = [&](const std::string& what) {
    if (request.begin) request.begin(what);
  };
  for (const ComputeRequest::Matrix& m : request.matrices) {
    begin(fmt::format("products with matrices of {} x {}", m.columns, m.inner));
    for (int64_t rows : request.rows)
      for (const ProductPoint& p : measure_products(clock, rows, m, request.repeats)) measured.products.push_back(p);
  }
  begin("memory");
  measured.memory_bytes = memory_rate(clock, request.floats, request.repeats);
  measured.start = op_start(clock, request.repeats);
}

}  // namespace plait
