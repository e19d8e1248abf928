// A gate in plain loops: what its folder's plain.cpp gives, and what they are written with.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedule/draws.h"
#include "schedule/testing/kernels.h"

namespace plait::oracle {

// The chosen routes of all of a rank's tokens.
struct PlainChoice {
  const Route& op;
  const Array &logits, &idx;
};

// Over which routes of a token its weights are divided.
enum class Over { nothing, chosen, kept };

struct PlainRoute {
  // idx of the real tokens first to last, one gate group; -1 before.
  void (*choose)(const Call& c, const Route& op, int64_t first, int64_t last);
  // What each expert's weight for a token is made of, [E].
  std::vector<double> (*scores)(const PlainChoice& of, int64_t token);
  // The gradient of the logits from that of the scores.
  std::vector<double> (*pull)(const std::vector<double>& scores, const std::vector<double>& dscores);
  Over (*over)(const Route& op);
};

// How a gate of Plait is in plain loops; null what it has not.
struct PlainGate {
  const PlainRoute* route = nullptr;
  const PlainRoute* topk_first = nullptr;
};

// That of a gate of Plait, or what the record of one from outside names.
const PlainRoute& plain_of(const RouteSpec& route);

inline int64_t num_experts(const Array& logits) { return logits.shape.back(); }

inline std::vector<double> row(const Array& logits, int64_t token) {
  const int64_t n = num_experts(logits);
  return {logits.data.begin() + token * n, logits.data.begin() + (token + 1) * n};
}

inline std::vector<double> softmax(std::vector<double> p) {
  const double top = *std::max_element(p.begin(), p.end());
  for (double& x : p) x = std::exp(x - top);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

inline std::vector<double> softmax(const Array& logits, int64_t token) { return softmax(row(logits, token)); }

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline std::vector<double> sigmoids(const Array& logits, int64_t token) {
  std::vector<double> s = row(logits, token);
  for (double& x : s) x = sigmoid(x);
  return s;
}

// Scores and pulls of the gates that weigh by a softmax, or by sigmoids.
inline std::vector<double> softmax_scores(const PlainChoice& of, int64_t token) { return softmax(of.logits, token); }
inline std::vector<double> sigmoid_scores(const PlainChoice& of, int64_t token) { return sigmoids(of.logits, token); }

inline std::vector<double> pull_softmax(const std::vector<double>& p, const std::vector<double>& dp) {
  const double mean = std::inner_product(p.begin(), p.end(), dp.begin(), 0.0);
  std::vector<double> dlogits;
  for (size_t e = 0; e < p.size(); ++e) dlogits.push_back(p[e] * (dp[e] - mean));
  return dlogits;
}

inline std::vector<double> pull_sigmoid(const std::vector<double>& s, const std::vector<double>& ds) {
  std::vector<double> dlogits;
  for (size_t e = 0; e < s.size(); ++e) dlogits.push_back(s[e] * (1 - s[e]) * ds[e]);
  return dlogits;
}

inline Over over_nothing(const Route&) { return Over::nothing; }
inline Over over_kept(const Route&) { return Over::kept; }
inline Over over_as_asked(const Route& op) {
  if (op.normalize == Normalize::none) return Over::nothing;
  return op.normalize == Normalize::before ? Over::chosen : Over::kept;
}

// Experts by falling value, equal ones by number.
inline std::vector<int64_t> ranked(const std::vector<double>& value) {
  std::vector<int64_t> order(value.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return value[a] > value[b]; });
  return order;
}

// The draw of element `index` of a rank's [T, E].
inline double drawn(const Call& c, const Route& op, Draw purpose, int64_t index) {
  const int64_t experts = num_experts(c.x(0));
  const int64_t first = local_range(c.mesh, *c.type(0).find("T"), c.rank).first;
  const auto step = static_cast<int64_t>(c.in.back()->data[0]);
  return draw(draw_key(step, op.rule.stream, purpose), first * experts + index);
}

inline std::vector<double> with_gumbel(const Call& c, const Route& op, int64_t token, std::vector<double> value) {
  const auto experts = static_cast<int64_t>(value.size());
  for (int64_t e = 0; e < experts; ++e) value[e] += gumbel(drawn(c, op, Draw::sample, token * experts + e));
  return value;
}

// The first experts of order(token) for each real token.
template <class Order>
void choose_first(const Call& c, const Route& op, int64_t first, int64_t last, Order order) {
  for (int64_t t = first; t < last; ++t) {
    if (c.x(1)[t] == 0) continue;
    const std::vector<int64_t> experts = order(t);
    for (int64_t k = 0; k < op.top_k; ++k) c.y(1)[t * op.top_k + k] = static_cast<double>(experts[k]);
  }
}

}  // namespace plait::oracle
