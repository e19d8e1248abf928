#include "draw/fit_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/markup.h"
#include "base/units.h"

namespace plait {
namespace {

constexpr double kPanelWidth = 300, kPanelHeight = 220, kLeft = 52, kRight = 28, kTop = 30, kBottom = 30, kHead = 56;
constexpr size_t kColumns = 3;
constexpr int kLinePoints = 24;

constexpr std::string_view kStyle = R"(<style>
text { font: 11px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #7d8590 }
.title { font-size: 14px; font-weight: 600 } .name { font-weight: 600 } .end { text-anchor: end } .mid { text-anchor: middle }
.grid { stroke: #7d8590; stroke-opacity: .25 } .fit { fill: none; stroke-width: 1.5; stroke-opacity: .7 }
</style>
)";

struct Series {
  Collective kind;
  std::string_view colour;
};
constexpr Series kSeries[] = {{Collective::all_reduce, "#d9730d"},
                              {Collective::all_gather, "#2f6fdb"},
                              {Collective::reduce_scatter, "#2a9d6f"},
                              {Collective::all_to_all, "#a04cc9"}};

std::string words(std::string_view kind, double x, double y, std::string_view text) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y, escaped(text));
}

// Powers between which all samples lie: of 2 for bytes, of 10 for seconds.
struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double value) {
    low = std::min(low, std::floor(value));
    high = std::max(high, std::ceil(value));
  }
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

struct Axes {
  Range bytes, seconds;
};

Axes axes_of(const Measured& measured) {
  Axes axes;
  for (const MeasuredGroup& group : measured.groups)
    for (const auto& samples : group.samples)
      for (const MessageSample& s : samples) {
        axes.bytes.add(std::log2(s.bytes));
        axes.seconds.add(std::log10(s.seconds));
      }
  return axes;
}

class Panel {
 public:
  Panel(const Axes& axes, size_t place)
      : axes_(axes),
        left_(static_cast<double>(place % kColumns) * kPanelWidth + kLeft),
        top_(static_cast<double>(place / kColumns) * kPanelHeight + kHead + kTop) {}

  std::string draw(const MeasuredGroup& group) const {
    std::string out = words("name", left_, top_ - 8, "groups of " + text(group.digits)) + grid();
    for (const Series& series : kSeries) {
      const auto& samples = group.samples[static_cast<size_t>(series.kind)];
      if (samples.empty()) continue;
      out += line(samples, series);
      for (const MessageSample& s : samples)
        out += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{}: {} sent in {}</title></circle>\n",
            x(s.bytes), y(s.seconds), series.colour, name(series.kind), human_bytes(s.bytes), human_seconds(s.seconds));
    }
    return out;
  }

 private:
  static constexpr double kWide = kPanelWidth - kLeft - kRight, kHigh = kPanelHeight - kTop - kBottom;

  double x(double bytes) const { return left_ + axes_.bytes.share(std::log2(bytes)) * kWide; }
  double y(double seconds) const { return top_ + (1 - axes_.seconds.share(std::log10(seconds))) * kHigh; }

  std::string grid() const {
    std::string out;
    for (double power = axes_.seconds.low; power <= axes_.seconds.high; ++power) {
      const double at = y(std::pow(10, power));
      out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", left_,
                         left_ + kWide, at, at);
      out += words("end", left_ - 6, at + 4, human_seconds(std::pow(10, power)));
    }
    for (double power = axes_.bytes.low; power <= axes_.bytes.high; power += 5)
      out += words("mid", x(std::exp2(power)), top_ + kHigh + 16, human_bytes(std::exp2(power)));
    return out;
  }

  // A line bends on logarithmic axes.
  std::string line(const std::vector<MessageSample>& samples, const Series& series) const {
    const MessageCost cost = fit_messages(samples).cost;
    const double first = std::log2(samples.front().bytes), last = std::log2(samples.back().bytes);
    std::string points;
    for (int i = 0; i <= kLinePoints; ++i) {
      const double bytes = std::exp2(first + (last - first) * i / kLinePoints);
      points += fmt::format("{}{:.1f},{:.1f}", i ? " " : "", x(bytes), y(cost.seconds(bytes)));
    }
    return fmt::format("<polyline class=\"fit\" stroke=\"{}\" points=\"{}\"/>\n", series.colour, points);
  }

  const Axes& axes_;
  double left_, top_;
};

std::string legend() {
  std::string out;
  double at = kLeft;
  for (const Series& series : kSeries) {
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"40\" r=\"4\" fill=\"{}\"/>\n", at, series.colour);
    out += words("", at + 8, 44, name(series.kind));
    at += 30 + 6.2 * static_cast<double>(name(series.kind).size());
  }
  return out;
}

}  // namespace

std::string draw_fits(const Measured& measured, const std::string& title) {
  const size_t rows = (measured.groups.size() + kColumns - 1) / kColumns;
  const double width = kColumns * kPanelWidth, height = kHead + static_cast<double>(rows) * kPanelHeight;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n",
      width, height);
  svg += std::string(kStyle) + words("title", kLeft - 4, 20, title + ": seconds by bytes that a rank sends") + legend();
  const Axes axes = axes_of(measured);
  for (size_t i = 0; i < measured.groups.size(); ++i) svg += Panel(axes, i).draw(measured.groups[i]);
  return svg + "</svg>\n";
}

}  // namespace plait
