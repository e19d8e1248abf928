#include "train/lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plait {

double LearningRate::at(int64_t step) const {
  if (step < warmup_steps) return highest * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (step > 0 && step + 1 >= steps) return lowest;
  const int64_t last = std::max<int64_t>(1, steps - 1 - warmup_steps);
  const double done = static_cast<double>(step - warmup_steps) / static_cast<double>(last);
  return lowest + (highest - lowest) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace plait
