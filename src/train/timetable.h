// When a run saves by time and ends by time: what rank 0 decides for all, by its own clock. Pure: the seconds are
// given.
#pragma once
#include <optional>

namespace plait {

class Timetable {
 public:
  // `interval`: s between checkpoints; `limit`: s after `started` by which the run must have ended; empty: none. Times
  // are of one clock.
  Timetable(std::optional<double> interval, std::optional<double> limit, double started)
      : interval_(interval), limit_(limit), started_(started), last_save_(started) {}

  void begin(double now) { last_save_ = now; }  // the steps begin
  void step_took(double seconds);
  void evaluation_took(double seconds);
  void save_took(double seconds, double now);

  bool save_due(double now) const { return interval_ && now - last_save_ >= *interval_; }
  // Whether another step, what may follow it and the last save could come too late.
  bool time_up(double now) const;

 private:
  std::optional<double> interval_, limit_;
  double started_, last_save_;
  double step_ = 0, evaluation_ = 0, save_ = 0;  // the longest so far, s
};

}  // namespace plait
