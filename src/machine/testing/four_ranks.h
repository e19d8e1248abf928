// Measurements of a made-up machine, for tests.
#pragma once
#include <cmath>

#include "machine/measured.h"

namespace plait {

// What messages of 256 bytes and more take at this cost, times the factors in turn.
inline std::vector<MessageSample> samples(MessageCost cost, const std::vector<double>& factors = {1}) {
  std::vector<MessageSample> all;
  for (int i = 0; i < 8; ++i) {
    const double bytes = 256 * std::pow(4.0, i);
    all.push_back({bytes, cost.seconds(bytes) * factors[static_cast<size_t>(i) % factors.size()]});
  }
  return all;
}

// Four ranks on two nodes; a group costs as many microseconds as it has ranks, ten times that between nodes.
inline Measured four_ranks() {
  Measured measured{.ranks = 4, .per_node = 2, .memory_bytes = 8e9, .start = 2e-6};
  for (const Digits& digits : group_shapes(4)) {
    const double alpha = 1e-6 * num_ranks(digits) * (level_of(measured, digits) ? 10 : 1);
    MeasuredGroup group{.digits = digits};
    for (size_t kind = 1; kind < group.samples.size(); ++kind)
      group.samples[kind] = samples({.alpha = alpha, .beta = 1e-8});
    measured.groups.push_back(std::move(group));
  }
  measured.products = {{512, 2048, 8, 2e9}, {512, 512, 2048, 40e9}, {2048, 512, 1024, 50e9}};
  return measured;
}

}  // namespace plait
