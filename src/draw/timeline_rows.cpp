#include "draw/timeline_rows.h"

#include <algorithm>
#include <map>

namespace plait {

std::vector<TimelineRow> timeline_rows(const Drawing& drawing) {
  std::map<std::vector<int>, TimelineRow> rows;
  for (const TimeSpan& span : drawing.timeline.spans) {
    if (span.end <= span.start) continue;
    TimelineRow& row = rows[{span.rank, span.lane}];
    row.rank = span.rank, row.lane = span.lane;
    row.spans.push_back(&span);
    row.busy += span.end - span.start;
  }
  std::vector<TimelineRow> sorted;
  for (auto& [place, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

std::vector<PartSpan> part_spans(const Drawing& drawing) {
  std::vector<PartSpan> parts;
  for (const TimeSpan& span : drawing.timeline.spans) {
    if (span.rank != 0 || span.end <= span.start) continue;
    const std::string& name = drawing.notes[span.step].part;
    if (parts.empty() || parts.back().name != name) {
      const double start = parts.empty() ? span.start : std::max(span.start, parts.back().end);
      parts.push_back({name, start, start});
    }
    parts.back().end = std::max(parts.back().end, span.end);
  }
  return parts;
}

}  // namespace plait
