// A value of a training run at a step: what metrics files hold and curves draw.
#pragma once
#include <cstdint>
#include <vector>

namespace plait {

struct MetricPoint {
  int64_t step;
  double value;
  bool operator==(const MetricPoint&) const = default;
};

// The values of a run of any length in bounded memory: so many neighbours become one point that there are never more
// than kMost. The same whether the points came in one run or in several.
class MetricSeries {
 public:
  static constexpr size_t kMost = 4096;

  void add(MetricPoint point);
  std::vector<MetricPoint> means() const;     // at the last step of the neighbours
  std::vector<MetricPoint> extremes() const;  // the lowest and the highest of them, in the order of their steps

 private:
  struct Run {
    int64_t count = 0;
    double sum = 0;
    MetricPoint low = {}, high = {}, last = {};
  };
  static Run joined(const Run& a, const Run& b);

  int64_t neighbours_ = 1;  // in a run; a power of two
  std::vector<Run> runs_;   // the last may have fewer
};

}  // namespace plait
