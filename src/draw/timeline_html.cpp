#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "draw/assets.h"
#include "draw/colour.h"
#include "draw/folds.h"
#include "draw/timeline_rows.h"
#include "draw/timeline_words.h"

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

template <class E, int n>
std::vector<E> all() {
  std::vector<E> values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<E>(i));
  return values;
}

std::string note_json(const StepNote& note) {
  return fmt::format(R"({{"kind":{},"title":{},"name":{},"lines":{},"needs":{}}})", static_cast<int>(note.kind),
                     quoted(note.title), quoted(note.name), list(note.lines, quoted),
                     list(note.needs, [](int step) { return std::to_string(step); }));
}

std::string row_json(const Drawing& drawing, const TimelineRow& row) {
  return fmt::format(R"({{"rank":{},"lane":{},"busy":{:.9g},"path":{},"boxes":{}}})", row.rank,
                     quoted(drawing.lanes[row.lane]), row.busy,
                     list(critical_stretches(drawing, row),
                          [](const CriticalStretch& s) { return fmt::format("[{:.9g},{:.9g}]", s.start, s.end); }),
                     list(row.spans, [](const TimeSpan* span) {
                       const std::string met = span->met > span->start ? fmt::format(",{:.9g}", span->met) : "";
                       return fmt::format("[{},{:.9g},{:.9g}{}]", span->step, span->start, span->end, met);
                     }));
}

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
  return fmt::format(R"({{"most":{},"points":{}}})", most, list(points, [&](const Point& p) {
                       const auto bytes = [&](MemoryClass c) { return std::to_string(p.use->of(c)); };
                       return fmt::format("[{:.9g},{:.9g},{},{}]", p.start, p.end,
                                          list(all<MemoryClass, kMemoryClasses>(), bytes), p.use->total());
                     }));
}

std::string fold_json(const Fold& fold) {
  return fmt::format(
      R"({{"what":{},"drawn":{},"told":{},"count":{},"depth":{},"start":{:.9g},"shown":{:.9g},"end":{:.9g}}})",
      quoted(fold.what), quoted(drawn(fold)), quoted(told(fold)), fold.count, fold.depth, fold.start, fold.shown,
      fold.end);
}

std::string panel_json(const Drawing& drawing) {
  return fmt::format(R"({{"title":{},"whole":{:.9g},"folds":{},"parts":{},"rows":{},"notes":{},"memory":{}}})",
                     quoted(drawing.title), std::max(drawing.timeline.makespan, 1e-12), list(folds(drawing), fold_json),
                     list(part_spans(drawing),
                          [](const PartSpan& part) {
                            return fmt::format("[{},{:.9g},{:.9g}]", quoted(part.name), part.start, part.end);
                          }),
                     list(timeline_rows(drawing), [&](const TimelineRow& row) { return row_json(drawing, row); }),
                     list(drawing.notes, note_json), memory_json(drawing));
}

}  // namespace

std::string timeline_html(std::span<const Drawing> drawings) {
  double whole = 1e-12;
  for (const Drawing& d : drawings) whole = std::max(whole, d.timeline.makespan);
  const std::string kinds = list(all<StepKind, kStepKinds>(), [](StepKind kind) {
    return fmt::format("[{},{},{}]", quoted(name(kind)), quoted(colour(kind)), quoted(ink_on(colour(kind))));
  });
  const std::string classes = list(all<MemoryClass, kMemoryClasses>(), [](MemoryClass c) {
    return fmt::format("[{},{}]", quoted(name(c)), quoted(colour(c)));
  });
  const std::string data = fmt::format(
      R"({{"whole":{:.9g},"kinds":{},"classes":{},"waits":{},"words":{},"panels":{}}})", whole, kinds, classes,
      shows_waiting(drawings) ? "true" : "false", list(words_of(drawings), quoted), list(drawings, panel_json));
  return filled("timeline.html", {{"data", data}});
}

}  // namespace plait
