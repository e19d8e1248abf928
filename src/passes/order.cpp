#include "passes/order.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>

#include "base/errors.h"

namespace plait {

Pace even_pace(const Schedule& schedule, int ranks_per_node) {
  Pace pace{.lanes = lanes(schedule, ranks_per_node)};
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const bool works = pace.lanes[i] != Lane::compute || traits_of(schedule.steps[i].op).cost.flops != traits::no_flops;
    pace.seconds.push_back(works ? 1 : 0);
  }
  return pace;
}

namespace {

// By step, the steps that must stand before it: those that make what it reads, and for an update in place all that read
// the memory it overwrites.
std::vector<std::set<int>> predecessors(const Schedule& s) {
  const std::vector<int> made = makers(s);
  std::vector<ValueId> root(s.names.size());
  std::iota(root.begin(), root.end(), 0);
  std::vector<std::vector<int>> reads(s.names.size());  // by root, so far
  std::vector<std::set<int>> before(s.steps.size());
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const Step& step = s.steps[i];
    for (ValueId v : step.in)
      if (made[v] >= 0) before[i].insert(made[v]);
    for (const Sharing& p : in_place(step))
      before[i].insert(reads[root[step.in[p.in]]].begin(), reads[root[step.in[p.in]]].end());
    for (ValueId v : step.in) reads[root[v]].push_back(static_cast<int>(i));
    for (const Sharing& share : aliases(step)) root[step.out[share.out]] = root[step.in[share.in]];
  }
  return before;
}

class Orderer {
 public:
  Orderer(const Schedule& s, const Pace& pace)
      : s_(s),
        pace_(pace),
        before_(predecessors(s)),
        after_(s.steps.size()),
        rest_(s.steps.size()),
        end_(s.steps.size()) {
    for (size_t i = 0; i < before_.size(); ++i)
      for (int p : before_[i]) after_[p].push_back(static_cast<int>(i));
    for (size_t i = rest_.size(); i-- > 0;) {
      for (int next : after_[i]) rest_[i] = std::max(rest_[i], rest_[next]);
      rest_[i] += pace_.seconds[i];
    }
  }

  // Orders the steps [first, last) behind those that are placed already.
  void section(int first, int last) {
    std::vector<int> missing(s_.steps.size(), 0);
    std::vector<int> ready;
    for (int i = first; i < last; ++i) {
      missing[i] = static_cast<int>(std::distance(before_[i].lower_bound(first), before_[i].end()));
      if (!missing[i]) ready.push_back(i);
    }
    while (!ready.empty()) {
      const auto next = std::min_element(ready.begin(), ready.end(), [&](int a, int b) { return key(a) < key(b); });
      const int index = *next;
      ready.erase(next);
      place(index);
      for (int after : after_[index])
        if (after < last && --missing[after] == 0) ready.push_back(after);
    }
  }

  std::vector<Step> take() { return std::move(steps_); }

 private:
  double start(int index) const {
    double at = free_[static_cast<int>(pace_.lanes[index])];
    for (int p : before_[index]) at = std::max(at, end_[p]);
    return at;
  }

  std::tuple<double, bool, double, int> key(int index) const {
    return {start(index), pace_.lanes[index] == Lane::compute, -rest_[index], index};
  }

  void place(int index) {
    end_[index] = start(index) + pace_.seconds[index];
    free_[static_cast<int>(pace_.lanes[index])] = end_[index];
    steps_.push_back(s_.steps[index]);
  }

  const Schedule& s_;
  const Pace& pace_;
  std::vector<std::set<int>> before_;
  std::vector<std::vector<int>> after_;
  std::vector<double> rest_, end_;  // seconds from a step's start to the end of the list; when it ends
  std::array<double, kNumLanes> free_ = {};
  std::vector<Step> steps_;
};

}  // namespace

Schedule reorder(const Schedule& schedule, const Pace& pace) {
  const int n = static_cast<int>(schedule.steps.size());
  expects(pace.lanes.size() == schedule.steps.size() && pace.seconds.size() == schedule.steps.size(),
          "a lane and a time for each step");
  Orderer order(schedule, pace);
  const Repeat section = schedule.repeat.value_or(Repeat{n, n, 1});
  order.section(0, section.first);
  order.section(section.first, section.last);
  order.section(section.last, n);
  Schedule out = schedule;
  out.steps = order.take();
  check(out);
  return out;
}

}  // namespace plait
