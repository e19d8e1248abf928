// A value of a training run at a step: what metrics files hold and curves draw.
#pragma once
#include <cstdint>

namespace plait {

struct MetricPoint {
  int64_t step;
  double value;
};

}  // namespace plait
