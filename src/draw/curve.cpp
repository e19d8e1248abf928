#include "draw/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/markup.h"

namespace plait {
namespace {

constexpr double kWidth = 840, kHeight = 420;
constexpr double kLeft = 64, kRight = 116, kTop = 52, kBottom = 52;
constexpr size_t kMostPoints = 1200;  // of a line; more cannot be seen
constexpr size_t kMostDots = 60;

constexpr std::string_view kStyle = R"(<style>
  svg { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }
  .page { fill: #ffffff; } .ink { fill: #24292f; } .soft { fill: #656d76; }
  .grid { stroke: #d8dee4; stroke-width: 1; } .axis { stroke: #8c959f; stroke-width: 1; }
  .raw { fill: none; stroke: #2f6fdb; stroke-opacity: .28; stroke-width: 1; }
  .train { fill: none; stroke: #2f6fdb; stroke-width: 2; stroke-linejoin: round; }
  .check { fill: none; stroke: #d9730d; stroke-width: 1.5; stroke-opacity: .6; }
  .dot { fill: #d9730d; stroke: #ffffff; stroke-width: 1.5; }
  .train-name { fill: #2f6fdb; } .check-name { fill: #c05f00; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #14181d; } .ink { fill: #e6edf3; } .soft { fill: #8d96a0; }
    .grid { stroke: #272e36; } .axis { stroke: #59626c; }
    .raw, .train { stroke: #6ea8ff; } .check { stroke: #f0a04b; } .dot { fill: #f0a04b; stroke: #14181d; }
    .train-name { fill: #6ea8ff; } .check-name { fill: #f0a04b; }
  }
</style>
)";

struct Range {
  double low, high;
};

// Steps and values to places on the page.
struct Scale {
  Range steps, values;
  double x(double step) const {
    return kLeft + (step - steps.low) / (steps.high - steps.low) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kTop + (values.high - value) / (values.high - values.low) * (kHeight - kTop - kBottom);
  }
};

Scale scale_of(const Curve& curve, const std::vector<MetricPoint>& smooth) {
  double last = 1, low = INFINITY, high = -INFINITY;
  for (const auto* points : {&smooth, &curve.validation}) {
    for (const auto& point : *points) {
      last = std::max(last, static_cast<double>(point.step));
      low = std::min(low, point.value);
      high = std::max(high, point.value);
    }
  }
  if (low > high) low = 0, high = 1;
  const double room = std::max(1e-6, 0.06 * (high - low));
  return {.steps = {0, last}, .values = {low - room, high + room}};
}

// At most kMostPoints points; of each run of neighbours the first, the lowest and the highest stay.
std::vector<MetricPoint> thinned(const std::vector<MetricPoint>& points) {
  if (points.size() <= kMostPoints) return points;
  const size_t run = (3 * points.size() + kMostPoints - 1) / kMostPoints;
  std::vector<MetricPoint> kept;
  for (size_t begin = 0; begin < points.size(); begin += run) {
    const auto first = points.begin() + begin, end = points.begin() + std::min(points.size(), begin + run);
    const auto [low, high] =
        std::minmax_element(first, end, [](const auto& a, const auto& b) { return a.value < b.value; });
    kept.push_back(*first);
    for (const auto& extreme : {std::min(low, high), std::max(low, high)}) {
      if (extreme != first) kept.push_back(*extreme);
    }
  }
  if (kept.back().step != points.back().step) kept.push_back(points.back());
  return kept;
}

std::string line(const Scale& scale, const std::vector<MetricPoint>& points, std::string_view kind) {
  if (points.size() < 2) return {};
  std::string places;
  for (const auto& point : thinned(points)) {
    places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", scale.x(static_cast<double>(point.step)),
                          scale.y(point.value));
  }
  return fmt::format("<polyline class=\"{}\" clip-path=\"url(#plot)\" points=\"{}\"/>\n", kind, places);
}

// The last point and every so many before it.
std::string dots(const Scale& scale, const std::vector<MetricPoint>& points) {
  const size_t apart = (points.size() + kMostDots - 1) / kMostDots;
  std::string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if ((points.size() - 1 - i) % apart != 0) continue;
    const auto& point = points[i];
    out += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\">",
                       scale.x(static_cast<double>(point.step)), scale.y(point.value));
    out += fmt::format("<title>step {}: {:.4f}</title></circle>\n", point.step, point.value);
  }
  return out;
}

std::string text(double x, double y, std::string_view attributes, std::string_view words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(words));
}

std::string axes(const Scale& scale, const std::string& unit) {
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  std::string out;
  for (const double tick : round_ticks(scale.values.low, scale.values.high, 6)) {
    const double y = scale.y(tick);
    out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft, right, y, y);
    out += text(kLeft - 8, y + 4, "class=\"soft\" font-size=\"12\" text-anchor=\"end\"", fmt::format("{:g}", tick));
  }
  for (const double tick : round_ticks(scale.steps.low, scale.steps.high, 8)) {
    const double x = scale.x(tick);
    out += fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/>\n", x, x, bottom,
                       bottom + 5);
    out += text(x, bottom + 20, "class=\"soft\" font-size=\"12\" text-anchor=\"middle\"", fmt::format("{}", tick));
  }
  out += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", kLeft, right, bottom, bottom);
  out += text(kLeft, kTop - 10, "class=\"soft\" font-size=\"12\"", unit);
  out += text((kLeft + right) / 2, kHeight - 12, "class=\"soft\" font-size=\"12\" text-anchor=\"middle\"", "step");
  return out;
}

// The last value of each line, written at its end; moved apart when they would touch.
std::string end_names(const Scale& scale, const Curve& curve, const std::vector<MetricPoint>& smooth) {
  constexpr double kApart = 30;
  const double x = kWidth - kRight + 10;
  double train_y = smooth.empty() ? 0 : scale.y(smooth.back().value);
  double check_y = curve.validation.empty() ? 0 : scale.y(curve.validation.back().value);
  if (!smooth.empty() && !curve.validation.empty() && std::abs(train_y - check_y) < kApart) {
    const double middle = std::min((train_y + check_y) / 2, kHeight - kBottom - kApart);
    const double side = train_y <= check_y ? -1 : 1;
    train_y = middle + side * kApart / 2;
    check_y = middle - side * kApart / 2;
  }
  std::string out;
  const auto name = [&](double y, std::string_view kind, std::string_view word, double value) {
    out += text(x, y - 1, fmt::format("class=\"{}\" font-size=\"12\"", kind), word);
    out += text(x, y + 13, fmt::format("class=\"{}\" font-size=\"13\" font-weight=\"600\"", kind),
                fmt::format("{:.3f}", value));
  };
  if (!smooth.empty()) name(train_y, "train-name", "training", smooth.back().value);
  if (!curve.validation.empty()) name(check_y, "check-name", "validation", curve.validation.back().value);
  return out;
}

}  // namespace

std::vector<MetricPoint> smoothed(const std::vector<MetricPoint>& points, double reach) {
  const double keep = std::exp(-1 / std::max(reach, 1e-3));
  auto out = points;
  std::vector<double> weights(points.size());
  double sum = 0, weight = 0;
  for (size_t i = 0; i < points.size(); ++i) {  // what lies before, the point itself included
    out[i].value = sum = keep * sum + points[i].value;
    weights[i] = weight = keep * weight + 1;
  }
  sum = weight = 0;
  for (size_t i = points.size(); i-- > 0;) {  // what lies behind
    out[i].value = (out[i].value + sum) / (weights[i] + weight);
    sum = keep * (sum + points[i].value);
    weight = keep * (weight + 1);
  }
  return out;
}

std::vector<double> round_ticks(double low, double high, int wanted) {
  const double rough = (high - low) / std::max(1, wanted);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double apart = 10 * power;
  for (const double step : {5.0, 2.0, 1.0}) {
    if (step * power >= rough) apart = step * power;
  }
  std::vector<double> ticks;
  for (double i = std::ceil(low / apart - 1e-9); i * apart <= high + 1e-9 * apart; ++i)
    ticks.push_back(i * apart + 0.0);
  return ticks;
}

std::string draw_curve(const Curve& curve) {
  const auto smooth = smoothed(curve.train, std::max(1.0, static_cast<double>(curve.train.size()) / 100));
  const auto scale = scale_of(curve, smooth);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n",
      kWidth, kHeight);
  svg += fmt::format("<title>{}</title>\n", escaped(curve.title));
  svg += kStyle;
  svg += fmt::format("<clipPath id=\"plot\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n", kLeft,
                     kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom);
  svg += fmt::format("<rect class=\"page\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n", kWidth, kHeight);
  svg += text(kLeft, 24, "class=\"ink\" font-size=\"15\" font-weight=\"600\"", curve.title);
  svg += axes(scale, curve.unit);
  svg += line(scale, curve.extremes.empty() ? curve.train : curve.extremes, "raw") + line(scale, smooth, "train");
  svg += line(scale, curve.validation, "check") + dots(scale, curve.validation);
  svg += end_names(scale, curve, smooth);
  return svg + "</svg>\n";
}

}  // namespace plait
