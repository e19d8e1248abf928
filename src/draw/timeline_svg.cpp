#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/markup.h"
#include "base/units.h"
#include "draw/colour.h"
#include "draw/folds.h"
#include "draw/timeline_rows.h"
#include "draw/timeline_words.h"

namespace plait {
namespace {

constexpr double kWidth = 1200, kLeft = 142, kRight = 16, kTop = 54, kRow = 22, kGap = 3, kRankGap = 12;
constexpr double kTitle = 22, kBracket = 18, kParts = 24, kPanelGap = 18, kAxis = 30, kLine = 15;
constexpr double kApart = 16;  // parts further apart have no name in common
constexpr size_t kLineLetters = 205;

// Grey ink that reads on white and on black; no background.
constexpr std::string_view kStyle = R"(<style>
text { font: 11px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #757d87 }
.title { font-size: 14px; font-weight: 600 } .panel { font-weight: 600 } .end { text-anchor: end } .mid { text-anchor: middle }
.in { fill: #ffffff; font-size: 10px; pointer-events: none } .dark { fill: #111111 } .lane { fill: #7d8590; fill-opacity: .1 }
.grid { stroke: #7d8590; stroke-opacity: .25 } .part { fill: #7d8590; fill-opacity: .16 } .equal { fill: none; stroke: #7d8590 }
.path { fill: #757d87 }
.box { shape-rendering: crispEdges } .wait { shape-rendering: crispEdges } .wait, .pale { fill-opacity: .3 }
</style>
)";

// 1, 2 or 5 times a power of ten seconds: about ten of them in the whole.
double tick(double whole) {
  const double rough = whole / 10, ten = std::pow(10, std::floor(std::log10(rough)));
  for (double step : {1., 2., 5.})
    if (step * ten >= rough) return step * ten;
  return 10 * ten;
}

// One drawing and where it stands: its title where there are several, brackets over equal layers, parts, rows.
struct Panel {
  const Drawing& drawing;
  std::vector<TimelineRow> rows;
  std::vector<Fold> folds;
  double brackets = 0, parts = 0, top = 0;  // y

  double y(size_t row) const {
    double at = top;
    for (size_t r = 0; r < row; ++r) at += kRow + (rows[r].rank == rows[r + 1].rank ? kGap : kRankGap);
    return at;
  }
  double bottom() const { return rows.empty() ? top : y(rows.size() - 1) + kRow; }
};

struct Page {
  std::vector<Panel> panels;
  double whole;
  TimeAxis axis;
  std::string out = {};

  bool one() const { return panels.size() == 1; }
  double at(double share) const { return kLeft + share * (kWidth - kLeft - kRight); }
  double begin(double seconds) const { return at(axis.begin(seconds)); }
  double end(double seconds) const { return at(axis.end(seconds)); }
  double bottom() const { return panels.back().bottom(); }
};

Page page_of(std::span<const Drawing> drawings) {
  std::vector<Panel> panels;
  double y = kTop, whole = 1e-12;
  for (const Drawing& d : drawings) {
    Panel panel{.drawing = d, .rows = timeline_rows(d), .folds = folds(d)};
    panel.brackets = y + (drawings.size() > 1 ? kTitle : 0);
    panel.parts = panel.brackets + kBracket * depth(panel.folds);
    panel.top = panel.parts + kParts;
    y = panel.bottom() + kPanelGap;
    whole = std::max(whole, d.timeline.makespan);
    panels.push_back(std::move(panel));
  }
  const TimeAxis axis(whole, panels.size() == 1 ? panels[0].folds : std::vector<Fold>{});
  return {std::move(panels), whole, axis};
}

double width_of(std::string_view words) { return 5.9 * static_cast<double>(words.size()) + 4; }

void text(Page& page, std::string_view kind, double x, double y, std::string_view words) {
  page.out += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y, escaped(words));
}

void key(Page& page, double& at, const std::string& look, std::string_view words) {
  page.out += fmt::format("<rect x=\"{:.1f}\" y=\"31\" width=\"10\" height=\"10\" rx=\"2\" {}/>\n", at, look);
  text(page, "", at + 15, 40, words);
  at += 32 + 5.8 * static_cast<double>(words.size());
}

void head(Page& page, std::span<const Drawing> drawings) {
  const Timeline& first = drawings.front().timeline;
  text(page, "title", 8, 18,
       page.one() ? drawings.front().title + ": " + human_seconds(first.makespan)
                  : fmt::format("{} schedules on one axis of time", drawings.size()));
  double at = 8;
  for (int k = 0; k < kStepKinds; ++k)
    key(page, at, fmt::format("fill=\"{}\"", colour(static_cast<StepKind>(k))), name(static_cast<StepKind>(k)));
  if (shows_waiting(drawings))
    key(page, at, fmt::format("class=\"pale\" fill=\"{}\"", colour(StepKind::all_reduce)),
        "pale: waiting for its group");
  if (shows_path(drawings)) {
    page.out += fmt::format("<rect class=\"path\" x=\"{:.1f}\" y=\"38\" width=\"10\" height=\"2\"/>\n", at);
    text(page, "", at + 15, 40, "underlined: the critical path");
  }
}

// Parts that follow one another and are each too narrow for its name.
struct Narrow {
  std::string first, last;
  double from = 0, to = 0;  // x
};

// The first of these names that fits.
bool label(Page& page, const Panel& panel, const Narrow& at, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (at.to - at.from < width_of(name)) continue;
    text(page, "mid", (at.from + at.to) / 2, panel.parts + 12, name);
    return true;
  }
  return false;
}

void parts(Page& page, const Panel& panel) {
  Narrow narrow;
  const auto flush = [&] {
    label(page, panel, narrow, {range_name(narrow.first, narrow.last)});
    narrow = {};
  };
  for (const PartSpan& part : part_spans(panel.drawing)) {
    if (page.axis.hides(part.start, part.end)) continue;
    const Narrow at{part.name, part.name, page.begin(part.start), page.end(part.end)};
    if (at.to - at.from < 1) continue;
    page.out += fmt::format(
        "<rect class=\"part\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\" rx=\"3\"><title>{}, "
        "{}</title></rect>\n",
        at.from, panel.parts, std::max(at.to - at.from - 1, .5), escaped(part.name),
        human_seconds(part.end - part.start));
    const bool fits = label(page, panel, at, {part.name, short_name(part.name)});
    if (fits || at.from - narrow.to > kApart) flush();
    if (!fits)
      narrow = {narrow.first.empty() ? at.first : narrow.first, at.last, narrow.first.empty() ? at.from : narrow.from,
                at.to};
  }
  flush();
}

// From where a fold begins to where the next one on its line does.
double room(const Page& page, const std::vector<Fold>& folds, size_t fold) {
  const double from = page.begin(folds[fold].start);
  for (size_t i = fold + 1; i < folds.size(); ++i)
    if (folds[i].depth == folds[fold].depth) return page.begin(folds[i].start) - from;
  return kWidth - kRight - from;
}

// Over equal layers a bracket that says how many there are, as wordy as there is room to the next one; within it the
// gap of those that are not drawn.
void brackets(Page& page, const Panel& panel) {
  for (size_t i = 0; i < panel.folds.size(); ++i) {
    const Fold& fold = panel.folds[i];
    const std::string whole = page.one() ? drawn(fold) : told(fold);
    const double from = page.begin(fold.start), to = page.begin(fold.end), y = panel.brackets + kBracket * fold.depth;
    page.out +=
        fmt::format("<path class=\"equal\" d=\"M{0:.1f} {3:.1f}V{2:.1f}H{1:.1f}V{3:.1f}\"><title>{4}</title></path>\n",
                    from + 1, to - 1, y + 12, y + 16, escaped(whole));
    for (const std::string& label : {whole, fold.what, fmt::format("x{}", fold.count)}) {
      if (room(page, panel.folds, i) < width_of(label)) continue;
      text(page, "", from + 3, y + 8, label);
      break;
    }
    if (page.one())
      text(page, "mid", (page.end(fold.shown) + to) / 2, panel.parts + 12, fmt::format("+{}", fold.count - 1));
  }
}

// What may be drawn on, without the gaps.
std::vector<std::pair<double, double>> stretches(const Page& page, const Panel& panel) {
  std::vector<std::pair<double, double>> all;
  double from = kLeft;
  std::vector<Fold> folds = page.one() ? panel.folds : std::vector<Fold>{};
  std::ranges::sort(folds, {}, &Fold::shown);
  for (const Fold& fold : folds) {
    all.emplace_back(from, page.end(fold.shown));
    from = page.begin(fold.end);
  }
  all.emplace_back(from, kWidth - kRight);
  return all;
}

void lanes(Page& page, const Panel& panel) {
  for (size_t r = 0; r < panel.rows.size(); ++r)
    for (const auto& [from, to] : stretches(page, panel))
      page.out += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>\n",
                              from > kLeft ? "lane more" : "lane", from, panel.y(r), to - from, kRow);
}

void axis(Page& page) {
  const double step = tick(page.axis.drawn()), bottom = page.bottom();
  double last = -100;
  for (int64_t i = 0; static_cast<double>(i) * step <= page.whole * 1.0001; ++i) {
    const double seconds = static_cast<double>(i) * step, x = page.end(seconds);
    if (page.axis.hides(seconds, seconds)) continue;
    for (const Panel& panel : page.panels)
      page.out += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", x,
                              panel.top - 6, panel.bottom() + 6);
    if (x - last < 52) continue;
    text(page, x > kWidth - 60 ? "end" : "mid", x, bottom + 20, human_seconds(seconds));
    last = x;
  }
}

// A run of boxes that is drawn as one.
struct Run {
  const TimeSpan* first = nullptr;
  double start = 0, end = 0;  // s
  double from = 0, to = 0;    // x
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

void box(Page& page, const Drawing& drawing, const Run& run, double y) {
  const auto kind = static_cast<StepKind>(std::ranges::max_element(run.by_kind) - run.by_kind);
  double from = run.from;
  if (const double met = std::min(page.end(run.first->met), run.to); run.steps == 1 && met > from) {
    page.out +=
        fmt::format("<rect class=\"wait\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>\n",
                    from, y, met - from, kRow, colour(kind));
    from = met;
  }
  const double width = run.to - from;
  page.out += fmt::format(
      "<rect class=\"box\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" "
      "fill=\"{}\"><title>{}</title></rect>\n",
      from, y, std::max(width - (width > 3 ? .6 : 0), 1.), kRow, colour(kind), escaped(hover(drawing, run)));
  if (run.steps > 1) return;
  const std::string& title = drawing.notes[run.first->step].title;
  if (width > width_of(title) + 2)
    text(page, ink_on(colour(kind)) == "#ffffff" ? "in mid" : "in mid dark", from + width / 2, y + 15, title);
}

void boxes(Page& page, const Drawing& drawing, const TimelineRow& row, double y) {
  Run run;
  const auto flush = [&] {
    if (run.steps > 0) box(page, drawing, run, y);
    run = {};
  };
  for (const TimeSpan* span : row.spans) {
    if (page.axis.hides(span->start, span->end)) continue;
    const double from = page.begin(span->start), to = page.end(span->end);
    const bool narrow = to - from < 1;
    if (!narrow || (run.steps > 0 && (from - run.to > 1 || run.to - run.from > 1))) flush();
    if (run.steps == 0) run.first = span, run.start = span->start, run.from = from;
    run.end = span->end, run.to = to;
    ++run.steps;
    run.by_kind[static_cast<size_t>(drawing.notes[span->step].kind)] += span->end - span->start;
    if (!narrow) flush();
  }
  flush();
}

// Lines under the boxes of the critical path; those that are not a pixel apart are one.
void underline(Page& page, const Panel& panel, size_t row) {
  Narrow line;
  const auto flush = [&] {
    if (line.to > line.from)
      page.out += fmt::format("<rect class=\"path\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"2\"/>\n",
                              line.from, panel.y(row) + kRow + .5, std::max(line.to - line.from, 1.));
  };
  for (const CriticalStretch& s : critical_stretches(panel.drawing, panel.rows[row])) {
    if (page.axis.hides(s.start, s.end)) continue;
    const double from = page.begin(s.start), to = page.end(s.end);
    if (from - line.to > 1) {
      flush();
      line.from = from;
    }
    line.to = to;
  }
  flush();
}

void rows(Page& page, const Panel& panel) {
  for (size_t r = 0; r < panel.rows.size(); ++r) {
    const TimelineRow& row = panel.rows[r];
    text(page, "end", kLeft - 8, panel.y(r) + 15,
         fmt::format("rank {} {} {:.0f}%", row.rank, panel.drawing.lanes[row.lane],
                     100 * row.busy / panel.drawing.timeline.makespan));
    boxes(page, panel.drawing, row, panel.y(r));
    underline(page, panel, r);
  }
}

// Broken at blanks, so that each line fits the picture.
std::vector<std::string> lines_of(const std::vector<std::string>& sentences) {
  std::vector<std::string> lines;
  for (std::string rest : sentences) {
    while (rest.size() > kLineLetters) {
      const size_t blank = rest.rfind(' ', kLineLetters);
      lines.push_back(rest.substr(0, blank));
      rest.erase(0, blank + 1);
    }
    lines.push_back(rest);
  }
  return lines;
}

}  // namespace

std::string timeline_svg(std::span<const Drawing> drawings) {
  Page page = page_of(drawings);
  std::vector<std::string> sentences = words_of(drawings);
  if (page.one() && !page.panels[0].folds.empty())
    sentences.push_back("+N: so many more that are equal to the one before, and not drawn.");
  const std::vector<std::string> lines = lines_of(sentences);
  const double foot = page.bottom() + kAxis, height = foot + kLine * static_cast<double>(lines.size()) + 6;
  page.out =
      fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\">\n{}",
                  kWidth, height, kWidth, kStyle);
  head(page, drawings);
  for (const Panel& panel : page.panels) {
    if (!page.one())
      text(page, "panel", 8, panel.brackets - 8,
           panel.drawing.title + ": " + human_seconds(panel.drawing.timeline.makespan));
    brackets(page, panel);
    parts(page, panel);
    lanes(page, panel);
  }
  axis(page);
  for (const Panel& panel : page.panels) rows(page, panel);
  for (size_t i = 0; i < lines.size(); ++i) text(page, "", 8, foot + kLine * static_cast<double>(i + 1) - 4, lines[i]);
  return page.out + "</svg>\n";
}

}  // namespace plait
