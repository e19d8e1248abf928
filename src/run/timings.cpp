#include "run/timings.h"

#include <time.h>

#include <algorithm>

#include "base/statistics.h"

namespace plait {

double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

void Timings::merge(const Timings& other) {
  for (size_t i = 0; i < all_.size(); ++i) {
    all_[i].begin = std::min(all_[i].begin, other.all_[i].begin);
    all_[i].end = std::max(all_[i].end, other.all_[i].end);
  }
}

double Timings::least() const {
  return std::ranges::min(all([](const Stretch& s) { return ms(s.end - s.begin); }));
}

double Timings::median() const {
  return plait::median(all([](const Stretch& s) { return ms(s.end - s.begin); }));
}

double Timings::least_cpu() const {
  return std::ranges::min(all([](const Stretch& s) { return s.cpu_ms; }));
}

std::vector<double> Timings::all(double (*value)(const Stretch&)) const {
  std::vector<double> values;
  for (const Stretch& s : all_) values.push_back(value(s));
  return values;
}

Stretch together(wire::Group& world, const std::function<void()>& work) {
  world.barrier();
  const double cpu = cpu_ms();
  Stretch s{.begin = Clock::now()};
  work();
  s.end = Clock::now();
  s.cpu_ms = cpu_ms() - cpu;
  world.barrier();
  return s;
}

}  // namespace plait
