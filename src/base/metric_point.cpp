#include "base/metric_point.h"

namespace plait {

MetricSeries::Run MetricSeries::joined(const Run& a, const Run& b) {
  return {.count = a.count + b.count,
          .sum = a.sum + b.sum,
          .low = b.low.value < a.low.value ? b.low : a.low,
          .high = b.high.value > a.high.value ? b.high : a.high,
          .last = b.last};
}

void MetricSeries::add(MetricPoint point) {
  const Run one{1, point.value, point, point, point};
  if (!runs_.empty() && runs_.back().count < neighbours_) {
    runs_.back() = joined(runs_.back(), one);
    return;
  }
  if (runs_.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) runs_[i] = joined(runs_[2 * i], runs_[2 * i + 1]);
    runs_.resize(kMost / 2);
    neighbours_ *= 2;
  }
  runs_.push_back(one);
}

std::vector<MetricPoint> MetricSeries::means() const {
  std::vector<MetricPoint> points;
  for (const Run& run : runs_) points.push_back({run.last.step, run.sum / static_cast<double>(run.count)});
  return points;
}

std::vector<MetricPoint> MetricSeries::extremes() const {
  std::vector<MetricPoint> points;
  for (const Run& run : runs_) {
    const bool falls = run.high.step < run.low.step;
    points.push_back(falls ? run.high : run.low);
    if (run.low.step != run.high.step) points.push_back(falls ? run.low : run.high);
  }
  return points;
}

}  // namespace plait
