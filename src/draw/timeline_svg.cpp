#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/markup.h"
#include "base/units.h"
#include "draw/timeline_rows.h"

namespace plait {
namespace {

constexpr double kWidth = 1200, kLeft = 142, kRight = 16, kTop = 84, kRow = 22, kGap = 3, kRankGap = 12, kFoot = 30;

// Grey ink that reads on white and on black; no background.
constexpr std::string_view kStyle = R"(<style>
text { font: 11px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #7d8590 }
.title { font-size: 14px; font-weight: 600 } .end { text-anchor: end } .mid { text-anchor: middle }
.in { fill: #fff; font-size: 10px; pointer-events: none } .lane { fill: #7d8590; fill-opacity: .1 }
.grid { stroke: #7d8590; stroke-opacity: .25 } .part { fill: #7d8590; fill-opacity: .16 }
.box { shape-rendering: crispEdges } .wait { shape-rendering: crispEdges; fill-opacity: .3 }
</style>
)";

// 1, 2 or 5 times a power of ten seconds: about ten of them in the whole.
double tick(double whole) {
  const double rough = whole / 10, ten = std::pow(10, std::floor(std::log10(rough)));
  for (double step : {1., 2., 5.})
    if (step * ten >= rough) return step * ten;
  return 10 * ten;
}

struct Page {
  const Drawing& drawing;
  std::vector<TimelineRow> rows = timeline_rows(drawing);
  double whole = std::max(drawing.timeline.makespan, 1e-12);
  std::string out = {};

  double x(double seconds) const { return kLeft + seconds / whole * (kWidth - kLeft - kRight); }
  double y(size_t row) const {
    double at = kTop;
    for (size_t r = 0; r < row; ++r) at += kRow + (rows[r].rank == rows[r + 1].rank ? kGap : kRankGap);
    return at;
  }
  double bottom() const { return rows.empty() ? kTop : y(rows.size() - 1) + kRow; }
};

void text(Page& page, std::string_view kind, double x, double y, std::string_view words) {
  page.out += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y, escaped(words));
}

void head(Page& page) {
  text(page, "title", 8, 18, page.drawing.title + ": " + human_seconds(page.drawing.timeline.makespan));
  double at = 8;
  for (int k = 0; k < kStepKinds; ++k) {
    const auto kind = static_cast<StepKind>(k);
    page.out += fmt::format("<rect x=\"{:.1f}\" y=\"31\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{}\"/>\n", at,
                            colour(kind));
    text(page, "", at + 15, 40, name(kind));
    at += 36 + 6.1 * static_cast<double>(name(kind).size());
  }
}

void parts(Page& page) {
  for (const PartSpan& part : part_spans(page.drawing)) {
    const double from = page.x(part.start), width = page.x(part.end) - from;
    if (width < 1) continue;
    page.out += fmt::format(
        "<rect class=\"part\" x=\"{:.1f}\" y=\"56\" width=\"{:.1f}\" height=\"16\" rx=\"3\"><title>{}, "
        "{}</title></rect>\n",
        from, std::max(width - 1, .5), escaped(part.name), human_seconds(part.end - part.start));
    for (const std::string& label : {part.name, part.name.substr(0, part.name.find(' '))}) {
      if (width < 5.9 * static_cast<double>(label.size()) + 4) continue;
      text(page, "mid", from + width / 2, 68, label);
      break;
    }
  }
}

void axis(Page& page) {
  const double step = tick(page.whole), bottom = page.bottom();
  for (int i = 0; i * step <= page.whole * 1.0001; ++i) {
    const double x = page.x(i * step);
    page.out +=
        fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"78\" y2=\"{1:.1f}\"/>\n", x, bottom + 6);
    text(page, x > kWidth - 60 ? "end" : "mid", x, bottom + 20, human_seconds(i * step));
  }
}

// A run of boxes that is drawn as one.
struct Run {
  const TimeSpan* first = nullptr;
  double start = 0, end = 0;
  int steps = 0;
  double by_kind[kStepKinds] = {};
};

std::string hover(const Drawing& drawing, const Run& run) {
  if (run.steps > 1)
    return fmt::format("{} steps from {} on, {}", run.steps, drawing.notes[run.first->step].name,
                       human_seconds(run.end - run.start));
  const StepNote& note = drawing.notes[run.first->step];
  std::string words = fmt::format("{}, {}", note.title, human_seconds(run.end - run.start));
  if (run.first->met > run.first->start)
    words += fmt::format(", {} of them waiting for its group", human_seconds(run.first->met - run.first->start));
  for (const std::string& line : note.lines) words += "\n" + line;
  return words;
}

void box(Page& page, const Run& run, double y) {
  const auto kind = static_cast<StepKind>(std::ranges::max_element(run.by_kind) - run.by_kind);
  double from = page.x(run.start);
  if (const double met = page.x(run.first->met); run.steps == 1 && met > from) {
    page.out +=
        fmt::format("<rect class=\"wait\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>\n",
                    from, y, met - from, kRow, colour(kind));
    from = met;
  }
  const double width = page.x(run.end) - from;
  page.out += fmt::format(
      "<rect class=\"box\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
      "fill=\"{}\"><title>{}</title></rect>\n",
      from, y, std::max(width - (width > 3 ? .6 : 0), 1.), kRow, colour(kind), escaped(hover(page.drawing, run)));
  if (run.steps > 1) return;
  const std::string& title = page.drawing.notes[run.first->step].title;
  if (width > 5.8 * static_cast<double>(title.size()) + 6) text(page, "in mid", from + width / 2, y + 15, title);
}

void boxes(Page& page, const TimelineRow& row, double y) {
  Run run;
  const double pixel = page.whole / (kWidth - kLeft - kRight);
  const auto flush = [&] {
    if (run.steps > 0) box(page, run, y);
    run = {};
  };
  for (const TimeSpan* span : row.spans) {
    const bool narrow = span->end - span->start < pixel;
    if (!narrow || (run.steps > 0 && (span->start - run.end > pixel || run.end - run.start > pixel))) flush();
    if (run.steps == 0) run.first = span, run.start = span->start;
    run.end = span->end;
    ++run.steps;
    run.by_kind[static_cast<size_t>(page.drawing.notes[span->step].kind)] += span->end - span->start;
    if (!narrow) flush();
  }
  flush();
}

}  // namespace

std::string timeline_svg(const Drawing& drawing) {
  Page page{drawing};
  const double height = page.bottom() + kFoot;
  page.out =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\">\n{}",
                  kWidth, height, kWidth, kStyle);
  head(page);
  parts(page);
  for (size_t r = 0; r < page.rows.size(); ++r)
    page.out += fmt::format("<rect class=\"lane\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n",
                            kLeft, page.y(r), kWidth - kLeft - kRight, kRow);
  axis(page);
  for (size_t r = 0; r < page.rows.size(); ++r) {
    const TimelineRow& row = page.rows[r];
    text(page, "end", kLeft - 8, page.y(r) + 15,
         fmt::format("rank {} {} {:.0f}%", row.rank, drawing.lanes[row.lane], 100 * row.busy / page.whole));
    boxes(page, row, page.y(r));
  }
  return page.out + "</svg>\n";
}

}  // namespace plait
