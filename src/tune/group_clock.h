// Times what all ranks do at once. Every rank gets the same numbers, those of the slowest, so that decisions which
// follow from them are the same everywhere. Every rank makes the same calls.
#pragma once
#include <functional>

#include "wire/group.h"

namespace plait {

struct Repeats {
  double seconds = 0.2;  // enough repeats when so many have passed ..
  int least = 3, most = 15;
  double row = 2e-3;  // s: short work is done so long in a row; less tells more of how ranks leave a barrier
};

class GroupClock {
 public:
  GroupClock(int rank, wire::World& world);

  int rank() const { return rank_; }
  int ranks() const { return everyone_->size(); }

  void meet() { everyone_->barrier(); }

  // The largest of all ranks' values.
  double agreed(double value);

  // Seconds of one of `calls` calls in a row, from a common begin until the slowest rank is done.
  double seconds(int calls, const std::function<void()>& work);

  // Seconds of several kinds of work, each several times, in turns; after a first turn that does not count.
  std::vector<std::vector<double>> in_turns(const std::vector<std::function<void()>>& works, Repeats repeats = {});

  // The middle one of several times.
  double median(const std::function<void()>& work, Repeats repeats = {});

 private:
  int rank_;
  std::shared_ptr<wire::Group> everyone_;
};

// Work on two threads of a rank, begun together; returns when both are done. Where one throws, the other's waits end.
void at_once(wire::World& world, const std::function<void()>& first, const std::function<void()>& second);

}  // namespace plait
