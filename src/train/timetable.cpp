#include "train/timetable.h"

#include <algorithm>

namespace plait {

void Timetable::step_took(double seconds) { step_ = std::max(step_, seconds); }

void Timetable::evaluation_took(double seconds) { evaluation_ = std::max(evaluation_, seconds); }

void Timetable::save_took(double seconds, double now) {
  save_ = std::max(save_, seconds);
  last_save_ = now;
}

// A save may be timed in between, so there may be two; what never happened yet may take as long as a step.
bool Timetable::time_up(double now) const {
  const double spare = 1.2 * (step_ + evaluation_ + 2 * std::max(save_, step_)) + 1;
  return limit_ && now - started_ + spare >= *limit_;
}

}  // namespace plait
