#include "train/bench_compute.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "ops/products.h"
#include "run/executor.h"
#include "schedule/builder.h"

namespace plait {
namespace {

constexpr int64_t kMostRows = 1024, kMostExperts = 4;

// The three products of an expert's matrix w_NK with rows x_RK: x w', dy w and dy' x.
struct ExpertProducts {
  std::vector<int64_t> rows;
  at::Tensor x_RK, y_RN, w_ENK, dx_RK, dy_RN, dw_ENK;

  explicit ExpertProducts(const ProductPoint& p) {
    const auto each = static_cast<int64_t>(p.rows), N = static_cast<int64_t>(p.columns),
               K = static_cast<int64_t>(p.inner);
    const int64_t experts = std::clamp<int64_t>(kMostRows / each, 1, kMostExperts);
    rows.assign(static_cast<size_t>(experts), each);
    x_RK = at::full({experts * each, K}, 1e-3, at::kFloat);
    y_RN = at::full({experts * each, N}, 1e-3, at::kFloat);
    w_ENK = at::full({experts, N, K}, 1e-3, at::kFloat);
    dy_RN = at::full({experts * each, N}, 1e-3, at::kFloat);
    dx_RK = at::zeros({experts * each, K});
    dw_ENK = at::zeros({experts, N, K});
  }

  void run() const {
    ops::grouped({.a = x_RK, .b = w_ENK, .row_counts = rows, .out = y_RN}, ops::Layout::nt);
    ops::grouped({.a = dy_RN, .b = w_ENK, .row_counts = rows, .out = dx_RK}, ops::Layout::nn);
    ops::grouped({.a = dy_RN, .b = x_RK, .row_counts = rows, .out = dw_ENK}, ops::Layout::tn);
  }

  double flops() const { return 3 * 2.0 * static_cast<double>(x_RK.size(0) * w_ENK.size(1) * w_ENK.size(2)); }
};

}  // namespace

ProductPoint measure_product(GroupClock& clock, ProductPoint shape, Repeats repeats) {
  const ExpertProducts products(shape);
  shape.flops = products.flops() / clock.median([&] { products.run(); }, repeats);
  return shape;
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
      measured.products.push_back(measure_product(clock,
                                                  {.rows = static_cast<double>(rows),
                                                   .columns = static_cast<double>(m.columns),
                                                   .inner = static_cast<double>(m.inner)},
                                                  request.repeats));
  }
  begin("memory");
  measured.memory_bytes = memory_rate(clock, request.floats, request.repeats);
  measured.start = op_start(clock, request.repeats);
}

}  // namespace plait
