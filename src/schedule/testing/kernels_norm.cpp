// Norms, and what works on each token's elements beside them.
#include <cmath>

#include "base/errors.h"
#include "schedule/testing/kernels.h"
#include "schedule/typing.h"

namespace plait::oracle {

namespace {

// 1 / sqrt(mean(x^2) + eps) of a row
double row_scale(const Array& x, int64_t first, double eps) {
  const int64_t d = x.shape.back();
  double sum = 0;
  for (int64_t i = 0; i < d; ++i) sum += x[first + i] * x[first + i];
  return 1 / std::sqrt(sum / static_cast<double>(d) + eps);
}

}  // namespace

void compute(const Call& c, const RmsNorm& op) {
  const int64_t d = c.x(0).shape.back();
  for (int64_t row = 0; row < c.x(0).size(); row += d) {
    const double scale = row_scale(c.x(0), row, op.eps);
    for (int64_t i = 0; i < d; ++i) c.y()[row + i] = c.x(0)[row + i] * scale * c.x(1)[i];
  }
}

void compute(const Call& c, const RmsNormGrad& op) {
  const Array &x = c.x(0), &gain = c.x(1), &dy = c.x(2);
  const int64_t d = x.shape.back();
  for (int64_t row = 0; row < x.size(); row += d) {
    const double scale = row_scale(x, row, op.eps);
    double inner = 0;
    for (int64_t i = 0; i < d; ++i) {
      inner += dy[row + i] * gain[i] * x[row + i];
      c.y(1)[i] += dy[row + i] * x[row + i] * scale;
    }
    const double pull = inner * scale * scale * scale / static_cast<double>(d);
    for (int64_t i = 0; i < d; ++i) c.y(0)[row + i] = dy[row + i] * gain[i] * scale - x[row + i] * pull;
  }
}

namespace {

// Mean, and 1 / sqrt(variance + eps), of a row.
struct Row {
  double mean = 0, scale = 0;
};

Row row_at(const Array& x, int64_t first, double eps) {
  const int64_t d = x.shape.back();
  Row row;
  double squares = 0;
  for (int64_t i = 0; i < d; ++i) row.mean += x[first + i] / static_cast<double>(d);
  for (int64_t i = 0; i < d; ++i) squares += std::pow(x[first + i] - row.mean, 2);
  row.scale = 1 / std::sqrt(squares / static_cast<double>(d) + eps);
  return row;
}

}  // namespace

void compute(const Call& c, const LayerNorm& op) {
  const Array& x = c.x(0);
  const int64_t d = x.shape.back();
  for (int64_t i = 0; i < x.size(); ++i) {
    const Row row = row_at(x, i / d * d, op.eps);
    c.y()[i] = (x[i] - row.mean) * row.scale * c.x(1)[i % d] + c.x(2)[i % d];
  }
}

void compute(const Call& c, const LayerNormGrad& op) {
  const Array &x = c.x(0), &gain = c.x(1), &dy = c.x(2);
  const int64_t d = x.shape.back();
  for (int64_t first = 0; first < x.size(); first += d) {
    const Row row = row_at(x, first, op.eps);
    double mean = 0, along = 0;  // of dy * gain; of that times the normed x
    for (int64_t i = 0; i < d; ++i) {
      const double normed = (x[first + i] - row.mean) * row.scale, g = dy[first + i] * gain[i];
      mean += g / static_cast<double>(d);
      along += g * normed / static_cast<double>(d);
      c.y(1)[i] += dy[first + i] * normed;
      c.y(2)[i] += dy[first + i];
    }
    for (int64_t i = 0; i < d; ++i) {
      const double normed = (x[first + i] - row.mean) * row.scale;
      c.y(0)[first + i] = row.scale * (dy[first + i] * gain[i] - mean - normed * along);
    }
  }
}

namespace {

// Elements of a token on this rank, and in the whole.
int64_t of_token(const Array& x) { return x.shape[0] ? x.size() / x.shape[0] : 1; }

double in_the_whole(const Type& x) {
  double n = 1;
  for (size_t i = 1; i < x.dims.size(); ++i) n *= static_cast<double>(x.dims[i].size);
  return n;
}

}  // namespace

void compute(const Call& c, const MeanSquare&) {
  const Array& x = c.x(0);
  for (int64_t i = 0; i < x.size(); ++i) c.y()[i / of_token(x)] += x[i] * x[i] / in_the_whole(c.type(0));
}

void compute(const Call& c, const MeanSquareGrad&) {
  const Array &x = c.x(0), &ds = c.x(1);
  for (int64_t i = 0; i < x.size(); ++i) c.y()[i] = 2 * x[i] * ds[i / of_token(x)] / in_the_whole(c.type(0));
}

void compute(const Call& c, const RmsScale& op) {
  const Array &x = c.x(0), &s = c.x(1), &gain = c.x(2);
  const int64_t n = of_token(x);
  for (int64_t i = 0; i < x.size(); ++i) c.y()[i] = x[i] * gain[i % n] / std::sqrt(s[i / n] + op.eps);
}

void compute(const Call& c, const RmsScaleGrad& op) {
  const Array &x = c.x(0), &s = c.x(1), &gain = c.x(2), &dy = c.x(3);
  const int64_t n = of_token(x);
  for (int64_t i = 0; i < x.size(); ++i) {
    const double scale = 1 / std::sqrt(s[i / n] + op.eps);
    c.y(0)[i] = dy[i] * gain[i % n] * scale;
    c.y(1)[i / n] -= 0.5 * dy[i] * gain[i % n] * x[i] * scale * scale * scale;
    c.y(2)[i % n] += dy[i] * x[i] * scale;
  }
}

namespace {

// Where in a bias of this type each element of x reads.
std::vector<int64_t> bias_places(const Call& c, const Type& bias, size_t table) {
  const Array& x = c.x(0);
  const int64_t width = x.shape.back();
  std::vector<int64_t> at(static_cast<size_t>(x.size()));
  if (!bias_of_experts(c.type(0), bias.dim_names())) {
    int64_t size = 1;
    for (int64_t n : local_shape(c.mesh, bias)) size *= n;
    for (int64_t i = 0; i < x.size(); ++i) at[i] = i % size;
    return at;
  }
  std::vector<int64_t> expert;  // of each row
  if (c.in.size() > table) {
    const Array& counts = c.x(table);
    const int64_t e = array_dim(c.type(table), "E");
    for (int64_t cell = 0; cell < counts.size(); ++cell)
      expert.insert(expert.end(), static_cast<size_t>(counts[cell]), cell / counts.stride(e) % counts.shape[e]);
  } else {
    expects(c.type(0).jagged_index() < 0, "a bias of experts has a table: lower the schedule");
    const int64_t e = array_dim(c.type(0), "E");
    for (int64_t i = 0; i < x.size(); i += width) expert.push_back(i / x.stride(e) % x.shape[e]);
  }
  expects(static_cast<int64_t>(expert.size()) * width == x.size(), "the table of a bias counts its rows");
  for (int64_t i = 0; i < x.size(); ++i) at[i] = expert[i / width] * width + i % width;
  return at;
}

}  // namespace

void compute(const Call& c, const AddBias&) {
  const std::vector<int64_t> at = bias_places(c, c.type(1), 2);
  for (int64_t i = 0; i < c.y().size(); ++i) c.y()[i] = c.x(0)[i] + c.x(1)[at[i]];
}

void compute(const Call& c, const BiasGrad&) {
  const std::vector<int64_t> at = bias_places(c, *c.out_types[0], 1);
  for (int64_t i = 0; i < c.x(0).size(); ++i) c.y()[at[i]] += c.x(0)[i];
}

void compute(const Call& c, const Clip& op) {
  for (int64_t i = 0; i < c.y().size(); ++i) c.y()[i] = std::min(op.bound, std::max(-op.bound, c.x(0)[i]));
}

void compute(const Call& c, const ClipGrad& op) {
  for (int64_t i = 0; i < c.y().size(); ++i) c.y()[i] = std::abs(c.x(0)[i]) <= op.bound ? c.x(1)[i] : 0;
}

void compute(const Call& c, const TokenGate&) {
  const Array &x = c.x(0), &z = c.x(1);
  for (int64_t i = 0; i < x.size(); ++i) c.y()[i] = x[i] / (1 + std::exp(-z[i / of_token(x)]));
}

void compute(const Call& c, const TokenGateGrad&) {
  const Array &x = c.x(0), &z = c.x(1), &dy = c.x(2);
  for (int64_t i = 0; i < x.size(); ++i) {
    const double gate = 1 / (1 + std::exp(-z[i / of_token(x)]));
    c.y(0)[i] = dy[i] * gate;
    c.y(1)[i / of_token(x)] += dy[i] * x[i] * gate * (1 - gate);
  }
}

}  // namespace plait::oracle
