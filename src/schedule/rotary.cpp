#include "schedule/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plait {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Between waves that go into the original text often, which stay, and rarely, which are stretched.
double of_llama3(double frequency, const RopeScaling& s) {
  const double waves = static_cast<double>(s.original_positions) * frequency / kTurn;
  const double kept = std::clamp((waves - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0., 1.);
  return (1 - kept) * frequency / s.factor + kept * frequency;
}

// The pair, as a real number, that turns so often over the original text.
double pair_of(double turns, double size, double theta, const RopeScaling& s) {
  return size * std::log(static_cast<double>(s.original_positions) / (turns * kTurn)) / (2 * std::log(theta));
}

double of_yarn(double frequency, double pair, double size, double theta, const RopeScaling& s) {
  const double low = std::max(0., std::floor(pair_of(s.beta_fast, size, theta, s)));
  double high = std::min(size - 1, std::ceil(pair_of(s.beta_slow, size, theta, s)));
  if (low == high) high += 0.001;
  const double stretched = std::clamp((pair - low) / (high - low), 0., 1.);
  return stretched * frequency / s.factor + (1 - stretched) * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(int64_t head_size, double theta, const RopeScaling& scaling) {
  std::vector<double> all;
  const auto size = static_cast<double>(head_size);
  for (int64_t i = 0; i < head_size / 2; ++i) {
    const auto pair = static_cast<double>(i);
    const double frequency = std::pow(theta, -2 * pair / size);
    switch (scaling.type) {
      case RopeType::standard: all.push_back(frequency); break;
      case RopeType::linear: all.push_back(frequency / scaling.factor); break;
      case RopeType::llama3: all.push_back(of_llama3(frequency, scaling)); break;
      case RopeType::yarn: all.push_back(of_yarn(frequency, pair, size, theta, scaling)); break;
    }
  }
  return all;
}

double rope_amplitude(const RopeScaling& scaling) {
  if (scaling.type != RopeType::yarn) return 1;
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  return scaling.factor > 1 ? 0.1 * std::log(scaling.factor) + 1 : 1;
}

}  // namespace plait
