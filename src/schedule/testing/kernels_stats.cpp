// The statistics and losses of a gate in plain loops.
#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

double log_sum_exp(const Array& logits, int64_t token) {
  double sum = 0;
  for (int64_t e = 0; e < logits.shape.back(); ++e) sum += std::exp(logits[token * logits.shape.back() + e]);
  return std::log(sum);
}

std::vector<double> sigmoid_shares(const Array& logits, int64_t token) {
  std::vector<double> s = sigmoids(logits, token);
  const double sum = std::accumulate(s.begin(), s.end(), 0.0);
  for (double& x : s) x /= sum;
  return s;
}

std::vector<double> shares(const Array& logits, int64_t token, Score score) {
  return score == Score::softmax ? softmax(logits, token) : sigmoid_shares(logits, token);
}

// Among a rank's `rows` groups, the one of its token t.
int64_t row_of(const Call& c, int64_t t, int64_t group, int64_t rows) {
  if (group == 0) return 0;
  return (local_range(c.mesh, *c.type(0).find("T"), c.rank).first + t) / group % rows;
}

}  // namespace

void compute(const Call& c, const GateStats& op) {
  const int64_t experts = c.x(0).shape.back();
  for (int64_t t = 0; t < c.x(1).size(); ++t) {
    const int64_t row = row_of(c, t, op.group, c.y(1).size());
    const std::vector<double> p = shares(c.x(0), t, op.score);
    for (int64_t e = 0; e < experts; ++e) c.y(0)[row * experts + e] += c.x(1)[t] * p[e];
    c.y(1)[row] += c.x(1)[t] * std::pow(log_sum_exp(c.x(0), t), 2);
  }
}

void compute(const Call& c, const GateStatsGrad& op) {
  const int64_t experts = c.x(0).shape.back();
  for (int64_t t = 0; t < c.x(1).size(); ++t) {
    const int64_t row = row_of(c, t, op.group, c.x(3).size());
    const std::vector<double> p = shares(c.x(0), t, op.score), soft = softmax(c.x(0), t);
    const double* dpsum = c.x(2).data.data() + row * experts;
    const double mean = std::inner_product(p.begin(), p.end(), dpsum, 0.0);
    for (int64_t e = 0; e < experts; ++e) {
      const double slope = op.score == Score::softmax ? p[e] : p[e] * (1 - sigmoid(c.x(0)[t * experts + e]));
      c.y()[t * experts + e] =
          c.x(1)[t] * (slope * (dpsum[e] - mean) + soft[e] * c.x(3)[row] * 2 * log_sum_exp(c.x(0), t));
    }
  }
}

void compute(const Call& c, const Load& op) {
  const int64_t k = c.x(0).shape.back();
  for (int64_t route = 0; route < c.x(0).size(); ++route) {
    if (op.choices && route % k >= op.choices) continue;
    const int64_t row = row_of(c, route / k, op.group, c.y(0).size() / op.experts);
    if (c.x(0)[route] >= 0) c.y(0)[row * op.experts + static_cast<int64_t>(c.x(0)[route])] += 1;
    if (c.x(1)[route] >= 0) c.y(1)[row * op.experts + static_cast<int64_t>(c.x(0)[route])] += 1;
  }
}

namespace {

// One over the real tokens of a row of chosen routes; of the whole micro-batch where there are no groups.
double inverse(const Array& chosen, int64_t row, double k, double inv) {
  if (chosen.shape.size() < 2) return inv;
  double routes = 0;
  for (int64_t e = 0; e < chosen.shape.back(); ++e) routes += chosen[row * chosen.shape.back() + e];
  return routes > 0 ? k / routes : 0;
}

}  // namespace

void compute(const Call& c, const Balance& op) {
  const int64_t experts = c.x(0).shape.back();
  const auto k = static_cast<double>(op.top_k);
  const double inv = c.x(3)[0], share = c.x(4)[0];
  double sum = 0, z = 0;
  for (int64_t i = 0; i < c.x(0).size(); ++i) sum += c.x(0)[i] * inv * c.x(1)[i] * inverse(c.x(1), i / experts, k, inv);
  for (int64_t w = 0; w < c.x(2).size(); ++w) z += c.x(2)[w];
  c.y()[0] = share * (op.aux * static_cast<double>(experts) / k * sum + op.z * z * inv);
}

void compute(const Call& c, const BalanceGrad& op) {
  const int64_t experts = c.x(0).shape.back();
  const auto k = static_cast<double>(op.top_k);
  const double inv = c.x(1)[0], scale = c.x(2)[0] * c.x(3)[0];
  for (int64_t i = 0; i < c.x(0).size(); ++i)
    c.y(0)[i] =
        scale * op.aux * static_cast<double>(experts) / k * inv * c.x(0)[i] * inverse(c.x(0), i / experts, k, inv);
  for (int64_t w = 0; w < c.y(1).size(); ++w) c.y(1)[w] = scale * op.z * inv;
}

namespace {

double mean_of(const Array& v) {
  return std::accumulate(v.data.begin(), v.data.end(), 0.0) / static_cast<double>(v.size());
}

double variance_of(const Array& v) {
  double sum = 0;
  for (double x : v.data) sum += (x - mean_of(v)) * (x - mean_of(v));
  return sum / static_cast<double>(v.size());
}

}  // namespace

void compute(const Call& c, const Variation& op) {
  double sum = 0;
  for (const Array* v : {&c.x(0), &c.x(1)}) sum += variance_of(*v) / (std::pow(mean_of(*v), 2) + 1e-10);
  c.y()[0] = c.x(2)[0] * op.coef * sum / 2;
}

void compute(const Call& c, const VariationGrad& op) {
  for (size_t i : {0, 1}) {
    const Array& v = c.x(i);
    const double mean = mean_of(v), square = mean * mean + 1e-10, n = static_cast<double>(v.size());
    for (int64_t e = 0; e < v.size(); ++e)
      c.y(i)[e] = c.x(2)[0] * c.x(3)[0] * op.coef / 2 *
                  (2 * (v[e] - mean) / n / square - variance_of(v) * 2 * mean / n / square / square);
  }
}

}  // namespace plait::oracle
