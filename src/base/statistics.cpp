#include "base/statistics.h"

#include <algorithm>

#include "base/errors.h"

namespace plait {
namespace {

std::vector<double> sorted(std::vector<double> values) {
  expects(!values.empty(), "statistics: of one value at least");
  std::ranges::sort(values);
  return values;
}

double between(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(place), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

double percentile(std::vector<double> values, double share) { return between(sorted(std::move(values)), share); }

double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

Quartiles quartiles(std::vector<double> values) {
  const std::vector<double> all = sorted(std::move(values));
  return {between(all, 0.25), between(all, 0.5), between(all, 0.75)};
}

}  // namespace plait
