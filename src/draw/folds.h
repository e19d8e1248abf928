// Stretches of a timeline that repeat, as equal layers and micro-batches do: of the equal ones that follow one another
// a picture draws the first and leaves out the others, so that what it draws is wide enough to be read.
#pragma once
#include "draw/timeline.h"

namespace plait {

struct Fold {
  std::string what;  // "l1-l22: 22 equal layers"
  int count = 0;     // units that are equal
  int depth = 0;     // 1: in the drawn unit of another, as layers in a micro-batch
  // s: the first unit is [start, shown), the others go on to end; the shortest and the longest unit.
  double start = 0, shown = 0, end = 0, least = 0, most = 0;
};

// Equal are units of the same steps that do the same work, at least four in a row. By start, the outer one first.
std::vector<Fold> folds(const Drawing& drawing);
int depth(const std::vector<Fold>& folds);  // of the deepest + 1

std::string drawn(const Fold& fold);  // "l1-l22: 22 equal layers, 1 drawn, 380 us each"
std::string told(const Fold& fold);   // where all of them are drawn: "l1-l22: 22 equal layers, 380 us each"

// Where a time is drawn: what folds leave out is a gap.
class TimeAxis {
 public:
  TimeAxis(double whole, const std::vector<Fold>& folds);

  // Of the drawn length, 0 to 1. What starts in a gap starts at its end, what ends in one ends at its start.
  double begin(double seconds) const;
  double end(double seconds) const;

  // Whether all of it lies in a gap.
  bool hides(double start, double end) const;

  double drawn() const { return drawn_; }  // s, gaps included
  double gap() const { return gap_; }      // s, of each

 private:
  struct Hidden {
    double start, end;
  };
  double place(double seconds, double in_gap) const;
  std::vector<Hidden> hidden_;
  double drawn_ = 0, gap_ = 0;
};

}  // namespace plait
