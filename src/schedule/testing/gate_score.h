// The softmax of one token's logits, in plain loops.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedule/testing/kernels.h"

namespace plait::oracle {

inline std::vector<double> softmax(const Array& logits, int64_t token) {
  const int64_t n = logits.shape.back();
  std::vector<double> p(logits.data.begin() + token * n, logits.data.begin() + (token + 1) * n);
  const double top = *std::max_element(p.begin(), p.end());
  for (double& x : p) x = std::exp(x - top);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace plait::oracle
