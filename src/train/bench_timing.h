// What the benchmarks of schedules share: repeats over ranks, and time by step of a list.
#pragma once
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "run/executor.h"

namespace plait {

using Clock = std::chrono::steady_clock;
inline double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

// Processor time of the calling thread.
double cpu_ms();

struct KindTime {
  std::string kind;  // "einsum, experts", "gather"; of one step "attention -> %l0.attention"
  int64_t steps = 0;
  double ms = 0;      // in the fastest run of the list, a rank's mean
  double cpu_ms = 0;  // of that, what a rank's own thread computed: the rest it waited, or was not let run
};
using KindTimes = std::map<std::string, KindTime>;

std::string kind_of(const Schedule& schedule, const Step& step);
std::string name_of(const Schedule& schedule, const Step& step);

void add_mean(KindTimes& sums, const KindTimes& times, double ranks);
std::vector<KindTime> longest_first(const KindTimes& times);

// Time by step of the schedule, over one run of the list: started before it, told of every span.
class Profile {
 public:
  explicit Profile(const Schedule& schedule) : schedule_(schedule), ms_(schedule.steps.size()), cpu_(ms_) {}

  void start();
  void add(const Span& span);

  using Name = std::string (*)(const Schedule&, const Step&);
  KindTimes by(Name name) const;

 private:
  const Schedule& schedule_;
  std::vector<double> ms_, cpu_;                 // by step
  std::array<double, kNumLanes> last_cpu_ = {};  // of the thread of each lane
};

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
  std::vector<double> sorted(double (*value)(const Stretch&)) const;
  std::vector<Stretch> all_;
};

// All ranks begin together, and who is done waits for the others: what it did next would take their cores, and it would
// not move on what it sends them. The wait does not count.
Stretch together(wire::Group& world, const std::function<void()>& work);

}  // namespace plait
