// Time of work that all ranks do: wall time from a common begin, processor time of a thread, repeats.
#pragma once
#include <chrono>
#include <functional>
#include <vector>

#include "wire/group.h"

namespace plait {

using Clock = std::chrono::steady_clock;
inline double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

// Processor time of the calling thread.
double cpu_ms();

struct Stretch {
  Clock::time_point begin, end;
  double cpu_ms = 0;  // of the thread that measured
};

// The repeats of one thing.
class Timings {
 public:
  void add(const Stretch& s) { all_.push_back(s); }

  // From the first rank's begin to the last one's end; the processor time stays this rank's.
  void merge(const Timings& other);

  bool empty() const { return all_.empty(); }
  double least() const;
  double median() const;
  double least_cpu() const;
  bool last_is_fastest() const { return ms(all_.back().end - all_.back().begin) <= least(); }

 private:
  std::vector<double> all(double (*value)(const Stretch&)) const;
  std::vector<Stretch> all_;
};

// All ranks begin together, and who is done waits for the others: what it did next would take their cores, and it would
// not move on what it sends them. The wait does not count.
Stretch together(wire::Group& world, const std::function<void()>& work);

}  // namespace plait
