// Ops over a vocabulary that may be split: embedding and the loss.
#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/testing/kernels.h"

namespace plait::oracle {
namespace {

Range vocabulary(const Call& c, const Dim& dim) { return local_range(c.mesh, dim, c.rank); }

bool inside(Range range, double id) {
  return id >= static_cast<double>(range.first) && id < static_cast<double>(range.first + range.size);
}

}  // namespace

void compute(const Call& c, const Embed&) {
  const Range v = vocabulary(c, c.type(0).dims.front());
  const int64_t d = c.y().shape.back();
  for (int64_t t = 0; t < c.x(1).size(); ++t)
    if (const double id = c.x(1)[t]; inside(v, id))
      for (int64_t i = 0; i < d; ++i) c.y()[t * d + i] = c.x(0)[(static_cast<int64_t>(id) - v.first) * d + i];
}

void compute(const Call& c, const EmbedGrad& op) {
  const Range v = vocabulary(c, op.vocab);
  const int64_t d = c.y().shape.back();
  for (int64_t t = 0; t < c.x(1).size(); ++t)
    if (const double id = c.x(1)[t]; inside(v, id))
      for (int64_t i = 0; i < d; ++i) c.y()[(static_cast<int64_t>(id) - v.first) * d + i] += c.x(0)[t * d + i];
}

void compute(const Call& c, const RowMax&) {
  const int64_t v = c.x(0).shape.back();
  for (int64_t t = 0; t < c.y().size(); ++t) {
    const auto row = c.x(0).data.begin() + t * v;
    c.y()[t] = *std::max_element(row, row + v);
  }
}

namespace {

double greatest(const Array& maxima, int64_t token) {
  const int64_t n = maxima.size() / maxima.shape.front();
  const auto row = maxima.data.begin() + token * n;
  return *std::max_element(row, row + n);
}

}  // namespace

void compute(const Call& c, const ExpSumTarget&) {
  const Range v = vocabulary(c, c.type(0).dims.back());
  for (int64_t t = 0; t < c.y().size(); ++t) {
    const double top = greatest(c.x(1), t);
    for (int64_t i = 0; i < v.size; ++i) c.y(0)[t] += std::exp(c.x(0)[t * v.size + i] - top);
    if (const double id = c.x(2)[t]; inside(v, id))
      c.y(1)[t] = c.x(0)[t * v.size + static_cast<int64_t>(id) - v.first] - top;
  }
}

void compute(const Call& c, const ExpSumTargetGrad&) {
  const Range v = vocabulary(c, c.type(0).dims.back());
  for (int64_t t = 0; t < c.x(2).size(); ++t) {
    const double top = greatest(c.x(1), t);
    for (int64_t i = 0; i < v.size; ++i) c.y()[t * v.size + i] = c.x(3)[t] * std::exp(c.x(0)[t * v.size + i] - top);
    if (const double id = c.x(2)[t]; inside(v, id)) c.y()[t * v.size + static_cast<int64_t>(id) - v.first] += c.x(4)[t];
  }
}

void compute(const Call& c, const Nll&) {
  for (int64_t t = 0; t < c.x(0).size(); ++t)
    if (c.x(2)[t] != 0) c.y()[0] += c.x(2)[t] * (std::log(c.x(0)[t]) - c.x(1)[t]);
}

void compute(const Call& c, const NllGrad&) {
  for (int64_t t = 0; t < c.x(0).size(); ++t) {
    if (c.x(1)[t] == 0) continue;
    c.y(0)[t] = c.x(2)[0] * c.x(1)[t] / c.x(0)[t];
    c.y(1)[t] = -c.x(2)[0] * c.x(1)[t];
  }
}

}  // namespace plait::oracle
