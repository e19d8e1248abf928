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

std::vector<CriticalStretch> critical_stretches(const Drawing& drawing, const TimelineRow& row) {
  std::vector<CriticalStretch> all;
  for (const CriticalStep& c : drawing.path) {
    if (c.rank != row.rank || c.lane != row.lane || c.end <= c.start) continue;
    if (!all.empty() && c.start <= all.back().end)
      all.back().end = c.end;
    else
      all.push_back({c.start, c.end});
  }
  return all;
}

std::vector<PartSpan> part_spans(const Drawing& drawing) {
  std::vector<PartSpan> parts;
  for (const TimeSpan& span : drawing.timeline.spans) {
    if (span.rank != 0 || span.lane != kComputeLane || span.end <= span.start) continue;
    const std::string& name = drawing.notes[span.step].part;
    if (parts.empty() || parts.back().name != name) {
      const double start = parts.empty() ? span.start : std::max(span.start, parts.back().end);
      parts.push_back({name, start, start});
    }
    parts.back().end = std::max(parts.back().end, span.end);
  }
  return parts;
}

bool is_layer(const std::string& part) {
  return part.size() > 1 && part[0] == 'l' && part.find_first_not_of("0123456789", 1) == part.find(' ');
}

std::string short_name(const std::string& part) {
  const size_t blank = part.find(' ');
  return blank == std::string::npos ? part : part.substr(0, blank + 2);
}

std::string range_name(const std::string& first, const std::string& last) {
  if (first == last) return first;
  const size_t blank = std::min(first.find(' '), first.size());
  const std::string words = first.substr(blank);
  return first.substr(0, last.ends_with(words) ? blank : first.size()) + "-" + last;
}

}  // namespace plait
