// What the drawings share: rows, and parts of a step over time.
#pragma once
#include "draw/timeline.h"

namespace plait {

struct TimelineRow {
  int rank = 0, lane = 0;
  std::vector<const TimeSpan*> spans;  // that take time, by start
  double busy = 0;                     // s
};

// The rows that have something to show, by rank and lane. They point into the drawing.
std::vector<TimelineRow> timeline_rows(const Drawing& drawing);

// Of a row, by start: the stretches that lie on the critical path, in s.
struct CriticalStretch {
  double start = 0, end = 0;
};
std::vector<CriticalStretch> critical_stretches(const Drawing& drawing, const TimelineRow& row);

struct PartSpan {
  std::string name;
  double start = 0, end = 0;
};

// The parts of the step as its first rank computes them, one after the other.
std::vector<PartSpan> part_spans(const Drawing& drawing);

// "l1", "l1 backward".
bool is_layer(const std::string& part);

// "l1 b" of "l1 backward", "l1 a" of "l1 again": for where there is little room.
std::string short_name(const std::string& part);

// "l1-l22 backward" of "l1 backward" and "l22 backward"; of one name that.
std::string range_name(const std::string& first, const std::string& last);

}  // namespace plait
