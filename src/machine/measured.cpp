#include "machine/measured.h"

#include <algorithm>

#include "base/errors.h"

namespace plait {
namespace {

using Samples = std::array<std::vector<MessageSample>, 5>;

std::array<MessageCost, 5> lines(const Samples& samples) {
  std::array<MessageCost, 5> costs = {};
  for (size_t kind = 0; kind < samples.size(); ++kind)
    if (!samples[kind].empty()) costs[kind] = fit_messages(samples[kind]).cost;
  return costs;
}

// The line through a group's samples, and the samples themselves.
std::array<MessageCost, 5> bent_lines(const Samples& samples) {
  std::array<MessageCost, 5> costs = lines(samples);
  for (size_t kind = 0; kind < samples.size(); ++kind) {
    if (samples[kind].size() < 2) continue;
    for (const MessageSample& s : samples[kind]) costs[kind].points.push_back({s.bytes, s.seconds});
    std::ranges::sort(costs[kind].points, {}, &MessagePoint::bytes);
  }
  return costs;
}

Samples of_level(const Measured& measured, int level) {
  Samples all;
  for (const MeasuredGroup& group : measured.groups) {
    if (level_of(measured, group.digits) != level) continue;
    for (size_t kind = 0; kind < all.size(); ++kind)
      all[kind].insert(all[kind].end(), group.samples[kind].begin(), group.samples[kind].end());
  }
  return all;
}

std::vector<Level> levels_of(const Measured& measured) {
  std::vector<Level> levels = {{.name = "node", .ranks = measured.per_node}};
  if (num_levels(measured) > 1) levels.push_back({.name = "network", .ranks = measured.ranks});
  for (size_t l = 0; l < levels.size(); ++l) {
    const int level = static_cast<int>(l);
    const Samples own = of_level(measured, level);
    const bool measured_here = std::ranges::any_of(own, [](const auto& samples) { return !samples.empty(); });
    levels[l].cost = lines(measured_here ? own : of_level(measured, num_levels(measured) - 1 - level));
  }
  return levels;
}

// What large products reach: the mean over those with at least half as many operations as the largest.
double large_products(const std::vector<ProductPoint>& products) {
  const auto operations = [](const ProductPoint& p) { return p.rows * p.columns * p.inner; };
  double most = 0, sum = 0, count = 0;
  for (const ProductPoint& p : products) most = std::max(most, operations(p));
  for (const ProductPoint& p : products)
    if (operations(p) >= most / 2) sum += p.flops, ++count;
  return count > 0 ? sum / count : 1;
}

}  // namespace

int num_levels(const Measured& measured) { return measured.per_node < measured.ranks ? 2 : 1; }

int level_of(const Measured& measured, const Digits& digits) {
  return reach(digits, measured.ranks, measured.per_node) == Reach::across_nodes ? 1 : 0;
}

Machine fitted(const Measured& measured) {
  Machine machine{.flops = large_products(measured.products),
                  .memory_bytes = measured.memory_bytes,
                  .start = measured.start,
                  .levels = levels_of(measured)};
  machine.ranks = measured.ranks;
  for (const MeasuredGroup& group : measured.groups)
    machine.groups.push_back(
        {.digits = group.digits, .level = level_of(measured, group.digits), .cost = bent_lines(group.samples)});
  machine.pairs = measured.pairs;
  machine.products = measured.products;
  return machine;
}

}  // namespace plait
