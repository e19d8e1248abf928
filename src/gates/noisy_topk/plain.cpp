#include "schedule/testing/plain_route.h"

namespace plait::oracle {

extern const PlainGate noisy_topk_plain{};  // chooses as softmax after the top k

namespace {

double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }
double bell(double u) { return std::exp(-u * u / 2) / std::sqrt(2 * M_PI); }

// The standard normal draw of element i of a rank's [T, E].
double noise(const Call& c, double key, int64_t stream, int64_t i) {
  const int64_t experts = c.x(0).shape.back(), first = local_range(c.mesh, *c.type(0).find("T"), c.rank).first;
  return normal(draw_key(static_cast<int64_t>(key), stream, Draw::noise), static_cast<uint64_t>(first * experts + i));
}

// One token of a noisy gate: its experts by falling noisy logit, and for each the logit that it has to beat.
struct Noisy {
  std::vector<int64_t> order;
  std::vector<int64_t> rival;  // by expert; -1: it is chosen anyway
  Noisy(const Array& noisy, int64_t token, int64_t top_k) {
    const int64_t experts = noisy.shape.back();
    order.resize(experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return noisy[token * experts + a] > noisy[token * experts + b]; });
    rival.assign(experts, top_k == experts ? -1 : order[top_k - 1]);
    for (int64_t k = 0; k < top_k && top_k < experts; ++k) rival[order[k]] = order[top_k];
  }
};

std::vector<double> chosen_shares(const Array& noisy, int64_t token, const std::vector<int64_t>& order, int64_t top_k) {
  std::vector<double> p;
  for (int64_t k = 0; k < top_k; ++k) p.push_back(std::exp(noisy[token * noisy.shape.back() + order[k]]));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

void compute(const Call& c, const Noise& op) {
  for (int64_t i = 0; i < c.x(0).size(); ++i)
    c.y()[i] = c.x(0)[i] + noise(c, c.x(2)[0], op.stream, i) * softplus(c.x(1)[i]);
}

void compute(const Call& c, const NoiseGrad& op) {
  for (int64_t i = 0; i < c.x(0).size(); ++i)
    c.y()[i] = c.x(2)[i] * noise(c, c.x(1)[0], op.stream, i) * sigmoid(c.x(0)[i]);
}

void compute(const Call& c, const NoisyStats& op) {
  const int64_t experts = c.x(0).shape.back();
  for (int64_t t = 0; t < c.x(3).size(); ++t) {
    if (c.x(3)[t] == 0) continue;
    const Noisy token(c.x(2), t, op.top_k);
    const std::vector<double> p = chosen_shares(c.x(2), t, token.order, op.top_k);
    for (int64_t k = 0; k < op.top_k; ++k) c.y(0)[token.order[k]] += p[k];
    for (int64_t e = 0; e < experts; ++e) {
      const double gap = token.rival[e] < 0 ? INFINITY : c.x(0)[t * experts + e] - c.x(2)[t * experts + token.rival[e]];
      c.y(1)[e] += std::erfc(-gap / softplus(c.x(1)[t * experts + e]) / std::sqrt(2.0)) / 2;
    }
  }
}

void compute(const Call& c, const NoisyStatsGrad& op) {
  const int64_t experts = c.x(0).shape.back();
  for (int64_t t = 0; t < c.x(3).size(); ++t) {
    if (c.x(3)[t] == 0) continue;
    const Noisy token(c.x(2), t, op.top_k);
    const std::vector<double> p = chosen_shares(c.x(2), t, token.order, op.top_k);
    double mean = 0;
    for (int64_t k = 0; k < op.top_k; ++k) mean += p[k] * c.x(4)[token.order[k]];
    for (int64_t k = 0; k < op.top_k; ++k)
      c.y(2)[t * experts + token.order[k]] += p[k] * (c.x(4)[token.order[k]] - mean);
    for (int64_t e = 0; e < experts; ++e) {
      if (token.rival[e] < 0) continue;
      const double sd = softplus(c.x(1)[t * experts + e]);
      const double u = (c.x(0)[t * experts + e] - c.x(2)[t * experts + token.rival[e]]) / sd;
      const double slope = c.x(5)[e] * bell(u) / sd;
      c.y(0)[t * experts + e] += slope;
      c.y(1)[t * experts + e] -= slope * u * sigmoid(c.x(1)[t * experts + e]);
      c.y(2)[t * experts + token.rival[e]] -= slope;
    }
  }
}

}  // namespace plait::oracle
