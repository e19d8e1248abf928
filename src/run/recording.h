// The steps of all ranks as they were performed, for a measured timeline.
#pragma once
#include "plan/simulate.h"
#include "run/executor.h"

namespace plait {

class Recording {
 public:
  explicit Recording(Schedule schedule);

  // Notes the steps of a rank's executor. Each rank has its own; the recording must outlive it.
  Observer observer(int rank);
  // A run of the list begins: forgets the rank's last one.
  void begin(int rank);

  // Ranks that are threads record into one; where they are processes: gives what this rank recorded to all, and takes
  // theirs. Their clocks are set by a barrier of all ranks. Every rank calls it, done with its run.
  void share(int rank, wire::World& world);

  const Schedule& schedule() const { return schedule_; }
  // Of the last run, from the first begin of any rank. REQUIRES that all ranks are done with it.
  Timeline timeline() const;

 private:
  struct Rank {
    std::vector<Span> spans;
    std::vector<int> places;  // by span
    std::vector<int> times;   // by step: how often it ran
  };

  int place(int step, int time) const;
  void exchange(int rank, wire::Group& everyone);

  Schedule schedule_;
  std::vector<Rank> ranks_;
};

}  // namespace plait
