// Time by step of a list.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "run/executor.h"
#include "run/timings.h"

namespace plait {

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

}  // namespace plait
