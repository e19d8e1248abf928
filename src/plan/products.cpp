#include "plan/products.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "schedule/contraction.h"

namespace plait {
namespace {

double extent(const Mesh& mesh, const Type& type, const std::vector<std::string>& labels) {
  double n = 1;
  for (const std::string& label : labels) n *= static_cast<double>(local_size(mesh, *type.find(label)));
  return n;
}

double log_distance(double a, double b) { return std::log2(std::max(a, 1.0)) - std::log2(std::max(b, 1.0)); }

}  // namespace

ProductSize product_size(const Mesh& mesh, const Step& step, const Types& types) {
  const Type *a = &types[step.in[0]], *b = &types[step.in[1]];
  const auto c = contraction(a->dim_names(), b->dim_names(), std::get<Einsum>(step.op).out);
  expects(c.has_value(), "an einsum that is no product");
  if (c->swapped) std::swap(a, b);
  return {.batch = extent(mesh, *a, c->batch),
          .rows = extent(mesh, *a, c->row),
          .columns = extent(mesh, *b, c->column),
          .inner = extent(mesh, *a, c->sum)};
}

double product_rate(const Machine& machine, const ProductSize& size) {
  double sum = 0, weights = 0;
  for (const ProductPoint& point : machine.products) {
    const double rows = log_distance(size.rows, point.rows), columns = log_distance(size.columns, point.columns),
                 inner = log_distance(size.inner, point.inner);
    const double square = rows * rows + columns * columns + inner * inner;
    if (square < 1e-12) return point.flops;
    const double weight = 1 / (square * square);
    sum += weight * point.flops;
    weights += weight;
  }
  return weights > 0 ? sum / weights : machine.flops;
}

}  // namespace plait
