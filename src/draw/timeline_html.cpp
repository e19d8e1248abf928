#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "draw/assets.h"
#include "draw/timeline_rows.h"

namespace plait {
namespace {

// Between the script's tags a "</" would end it.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : json_quoted(text)) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

// [item, item, ..], each by `write`.
std::string list(const auto& items, auto&& write) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += ',';
    out += write(item);
  }
  return "[" + out + "]";
}

std::string note_json(const StepNote& note) {
  return fmt::format(R"({{"kind":{},"title":{},"name":{},"lines":{},"needs":{}}})", static_cast<int>(note.kind),
                     quoted(note.title), quoted(note.name), list(note.lines, quoted),
                     list(note.needs, [](int step) { return std::to_string(step); }));
}

std::string row_json(const Drawing& drawing, const TimelineRow& row) {
  return fmt::format(R"({{"rank":{},"lane":{},"busy":{:.9g},"boxes":{}}})", row.rank, quoted(drawing.lanes[row.lane]),
                     row.busy, list(row.spans, [](const TimeSpan* span) {
                       const std::string met = span->met > span->start ? fmt::format(",{:.9g}", span->met) : "";
                       return fmt::format("[{},{:.9g},{:.9g}{}]", span->step, span->start, span->end, met);
                     }));
}

// By MemoryClass: states blue, activations warm.
constexpr std::string_view kMemoryColours[kMemoryClasses] = {"#3b76d6", "#7aa5ea", "#2a9d6f", "#9aa4b1",
                                                             "#c9772b", "#e9bd6f", "#8a63c9"};

std::string memory_json(const Drawing& drawing) {
  if (drawing.memory.empty()) return "null";
  struct Point {
    double start = 0, end = 0;
    const MemoryUse* use = nullptr;
  };
  std::vector<Point> points;
  int64_t most = 1;
  for (const TimeSpan& span : drawing.timeline.spans) {
    if (span.rank != drawing.timeline.spans.front().rank) continue;
    points.push_back({span.start, span.end, &drawing.memory[static_cast<size_t>(span.place)]});
    most = std::max(most, points.back().use->total());
  }
  std::ranges::stable_sort(points, {}, &Point::start);
  for (size_t i = 1; i < points.size(); ++i) points[i - 1].end = points[i].start;
  std::vector<MemoryClass> classes;
  for (int c = 0; c < kMemoryClasses; ++c) classes.push_back(static_cast<MemoryClass>(c));
  return fmt::format(
      R"({{"most":{},"classes":{},"points":{}}})", most,
      list(classes,
           [](MemoryClass c) {
             return fmt::format("[{},{}]", quoted(name(c)), quoted(kMemoryColours[static_cast<size_t>(c)]));
           }),
      list(points, [&](const Point& p) {
        return fmt::format("[{:.9g},{:.9g},{},{}]", p.start, p.end,
                           list(classes, [&](MemoryClass c) { return std::to_string(p.use->of(c)); }), p.use->total());
      }));
}

}  // namespace

std::string timeline_html(const Drawing& drawing) {
  std::vector<StepKind> kinds;
  for (int k = 0; k < kStepKinds; ++k) kinds.push_back(static_cast<StepKind>(k));
  const std::string data = fmt::format(
      R"({{"title":{},"whole":{:.9g},"kinds":{},"parts":{},"rows":{},"notes":{},"memory":{}}})", quoted(drawing.title),
      std::max(drawing.timeline.makespan, 1e-12),
      list(kinds, [](StepKind kind) { return fmt::format("[{},{}]", quoted(name(kind)), quoted(colour(kind))); }),
      list(part_spans(drawing),
           [](const PartSpan& part) {
             return fmt::format("[{},{:.9g},{:.9g}]", quoted(part.name), part.start, part.end);
           }),
      list(timeline_rows(drawing), [&](const TimelineRow& row) { return row_json(drawing, row); }),
      list(drawing.notes, note_json), memory_json(drawing));
  return filled("timeline.html", {{"data", data}});
}

}  // namespace plait
