#include "schedule/lanes.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "schedule/wire_bytes.h"

namespace plait {

std::string_view name(Lane lane) {
  constexpr std::string_view names[] = {"compute", "intra", "inter"};
  return names[static_cast<int>(lane)];
}

std::vector<Lane> lanes(const Schedule& schedule, int ranks_per_node) {
  std::vector<Lane> all;
  for (const Step& step : schedule.steps) {
    const Move* move = as<Move>(step.op);
    const std::vector<Atom> atoms = move ? wire_atoms(move->legs) : std::vector<Atom>{};
    const bool crosses = std::any_of(atoms.begin(), atoms.end(), [&](Atom a) {
      return schedule.mesh.stride(a) * schedule.mesh.size(a) > ranks_per_node;
    });
    all.push_back(atoms.empty() ? Lane::compute : crosses ? Lane::inter : Lane::intra);
  }
  return all;
}

bool may_alias(const Op& op) {
  return as<Move>(op) || as<Split>(op) || as<Unflatten>(op) || as<Flatten>(op) || as<Pack>(op) || as<Unpack>(op) ||
         as<Dup>(op) || as<Pick>(op) || !in_place(op).empty();
}

namespace {

class Hazards {
 public:
  explicit Hazards(const Schedule& s) : s_(s), root_(s.names.size()), readers_(s.names.size()) {
    std::iota(root_.begin(), root_.end(), 0);
    for (const Step& step : s.steps)
      for (size_t i = 0; may_alias(step.op) && i < step.out.size(); ++i)
        root_[step.out[i]] = root_[step.in[std::min(i, step.in.size() - 1)]];
  }

  // The steps a step must follow; then notes it as a reader.
  std::set<int> before(int index, const std::vector<int>& made) {
    const Step& step = s_.steps[index];
    std::set<int> all;
    for (ValueId v : step.in) {
      if (made[v] >= 0) all.insert(made[v]);
      if (!last_use(v, index) && in_place(step.op).empty()) continue;
      all.insert(readers_[root_[v]].begin(), readers_[root_[v]].end());
    }
    for (ValueId v : step.in) readers_[root_[v]].push_back(index);
    return all;
  }

 private:
  bool last_use(ValueId v, int index) const {
    for (size_t i = index + 1; i < s_.steps.size(); ++i)
      if (std::find(s_.steps[i].in.begin(), s_.steps[i].in.end(), v) != s_.steps[i].in.end()) return false;
    return true;
  }

  const Schedule& s_;
  std::vector<ValueId> root_;              // whose memory a value may be
  std::vector<std::vector<int>> readers_;  // of that memory, so far
};

}  // namespace

std::vector<std::vector<int>> waits(const Schedule& schedule, const std::vector<Lane>& lanes) {
  const std::vector<int> made = makers(schedule);
  Hazards hazards(schedule);
  std::vector<std::vector<int>> all;
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    // Of each other lane only the last: its order gives the rest.
    int last[kNumLanes] = {-1, -1, -1};
    for (int before : hazards.before(static_cast<int>(i), made)) last[static_cast<int>(lanes[before])] = before;
    all.emplace_back();
    for (int lane = 0; lane < kNumLanes; ++lane)
      if (last[lane] >= 0 && lane != static_cast<int>(lanes[i])) all.back().push_back(last[lane]);
  }
  return all;
}

}  // namespace plait
