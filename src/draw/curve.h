// The loss curve of a run as one self-contained SVG: every step as a thin line, smoothed on top, validation as points.
// Reads well on light and dark pages (it follows the reader's colour scheme).
#pragma once
#include <string>
#include <vector>

#include "base/metric_point.h"

namespace plait {

struct Curve {
  std::string title;                          // above the plot
  std::string unit = "loss, nats per token";  // what the values are
  std::vector<MetricPoint> train = {};        // ascending steps
  std::vector<MetricPoint> extremes = {};     // what the thin line shows where a point of `train` stands for several
  std::vector<MetricPoint> validation = {};   // ascending steps
};

// The text of the SVG; deterministic. With no values it holds the title and empty axes.
std::string draw_curve(const Curve& curve);

// A mean over the neighbours on both sides; one `reach` points away weighs 1/e.
std::vector<MetricPoint> smoothed(const std::vector<MetricPoint>& points, double reach);

// Round numbers (1, 2 or 5 times a power of ten apart) within [low, high], about `wanted` of them.
std::vector<double> round_ticks(double low, double high, int wanted);

}  // namespace plait
