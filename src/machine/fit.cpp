#include "machine/fit.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace plait {
namespace {

// Sums over the samples of u = 1 / seconds and v = bytes / seconds: alpha u + beta v is to be 1.
struct Sums {
  double u = 0, v = 0, uu = 0, uv = 0, vv = 0;
};

Sums sums_of(std::span<const MessageSample> samples) {
  Sums s;
  for (const MessageSample& sample : samples) {
    expects(sample.seconds > 0, "a timed message took time");
    const double u = 1 / sample.seconds, v = sample.bytes / sample.seconds;
    s.u += u, s.v += v, s.uu += u * u, s.uv += u * v, s.vv += v * v;
  }
  return s;
}

MessageCost line(const Sums& s) {
  const double determinant = s.uu * s.vv - s.uv * s.uv;
  if (determinant > 1e-12 * s.uu * s.vv) {
    const double alpha = (s.u * s.vv - s.v * s.uv) / determinant, beta = (s.v * s.uu - s.u * s.uv) / determinant;
    if (alpha >= 0 && beta >= 0) return {.alpha = alpha, .beta = beta};
    if (alpha < 0) return {.alpha = 0, .beta = s.v / s.vv};
  }
  return {.alpha = s.u / s.uu, .beta = 0};
}

// The share of the spread of the times that the line explains.
double r_squared(std::span<const MessageSample> samples, MessageCost cost) {
  double mean = 0, left = 0, all = 0;
  for (const MessageSample& s : samples) mean += s.seconds / static_cast<double>(samples.size());
  for (const MessageSample& s : samples) {
    left += std::pow(s.seconds - cost.alpha - cost.beta * s.bytes, 2);
    all += std::pow(s.seconds - mean, 2);
  }
  return all > 0 ? 1 - left / all : 1;
}

}  // namespace

MessageFit fit_messages(std::span<const MessageSample> samples) {
  expects(!samples.empty(), "a fit needs samples");
  MessageFit fit{.cost = line(sums_of(samples))};
  fit.cost.r2 = r_squared(samples, fit.cost);
  for (const MessageSample& s : samples)
    fit.worst = std::max(fit.worst, std::abs((fit.cost.alpha + fit.cost.beta * s.bytes) / s.seconds - 1));
  return fit;
}

}  // namespace plait
