#include "run/profile.h"

#include <algorithm>

namespace plait {

std::string kind_of(const Schedule& s, const Step& step) {
  if (as<Einsum>(step.op)) return step.in.size() == 3 ? "einsum, experts" : "einsum, dense";
  return s.title(step);
}

std::string name_of(const Schedule& s, const Step& step) { return kind_of(s, step) + " -> %" + s.names[step.out[0]]; }

void add_mean(KindTimes& sums, const KindTimes& times, double ranks) {
  for (const auto& [name, time] : times) {
    KindTime& sum = sums[name];
    sum = {name, time.steps, sum.ms + time.ms / ranks, sum.cpu_ms + time.cpu_ms / ranks};
  }
}

std::vector<KindTime> longest_first(const KindTimes& times) {
  std::vector<KindTime> sorted;
  for (const auto& [name, time] : times) sorted.push_back(time);
  std::sort(sorted.begin(), sorted.end(), [](const KindTime& a, const KindTime& b) { return a.ms > b.ms; });
  return sorted;
}

void Profile::start() {
  std::fill(ms_.begin(), ms_.end(), 0);
  std::fill(cpu_.begin(), cpu_.end(), 0);
  last_cpu_[static_cast<size_t>(Lane::compute)] = cpu_ms();
}

void Profile::add(const Span& span) {
  ms_[span.step] += ms(span.end - span.begin);
  const double now = cpu_ms();
  double& last = last_cpu_[static_cast<size_t>(span.lane)];
  cpu_[span.step] += now - last;
  last = now;
}

KindTimes Profile::by(Name name) const {
  KindTimes kinds;
  for (size_t i = 0; i < ms_.size(); ++i) {
    const std::string kind = name(schedule_, schedule_.steps[i]);
    KindTime& time = kinds[kind];
    time.kind = kind;
    ++time.steps;
    time.ms += ms_[i];
    time.cpu_ms += cpu_[i];
  }
  return kinds;
}

}  // namespace plait
