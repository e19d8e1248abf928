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

std::vector<Sharing> aliases(const Step& step) {
  std::vector<Sharing> all = traits_of(step.op).memory.may(step);
  std::erase_if(all, [](const Sharing& s) { return s.how == Sharing::How::over; });
  return all;
}

namespace {

// By lane the last of some steps, -1 for none. A lane keeps its order, so the last stands for all before it.
using Marks = std::vector<int>;

void raise(Marks& marks, const Marks& others) {
  for (size_t lane = 0; lane < marks.size(); ++lane) marks[lane] = std::max(marks[lane], others[lane]);
}

bool covers(const Marks& marks, const Marks& others) {
  for (size_t lane = 0; lane < marks.size(); ++lane)
    if (marks[lane] < others[lane]) return false;
  return true;
}

class Rules {
 public:
  Rules(const Schedule& s, const std::vector<Lane>& lanes)
      : s_(s), lanes_(lanes), made_(makers(s)), last_(last_uses(s)), root_(s.names.size()) {
    for (Lane lane : lanes) none_.resize(std::max(none_.size(), static_cast<size_t>(lane) + 1), -1);
    readers_.assign(s.names.size(), none_);
    std::iota(root_.begin(), root_.end(), 0);
    for (const Step& step : s.steps)
      for (const Sharing& share : aliases(step)) root_[step.out[share.out]] = root_[step.in[share.in]];
  }

  LaneRules rules() {
    LaneRules rules;
    std::vector<Marks> ended(none_.size(), none_);  // by lane: what has ended when its last step so far has
    std::vector<Dying> dying;
    for (int i = 0; i < static_cast<int>(s_.steps.size()); ++i) {
      if (s_.repeat && (i == s_.repeat->first || i == s_.repeat->last)) dying.clear();
      const Marks before = must_precede(i);
      rules.waits.emplace_back();
      Marks& now = ended[static_cast<size_t>(lanes_[i])];
      for (size_t lane = 0; lane < before.size(); ++lane) {
        if (before[lane] < 0 || lane == static_cast<size_t>(lanes_[i])) continue;
        rules.waits.back().push_back(before[lane]);
        raise(now, after_[before[lane]]);
      }
      now[static_cast<size_t>(lanes_[i])] = i;
      after_.push_back(now);
      note_reads(i);
      for (ValueId v : touched(i))
        if (last_[v] == i) dying.push_back({v, readers_[root_[v]]});
      rules.ends.emplace_back();
      std::erase_if(dying, [&](const Dying& d) {
        if (!covers(now, d.readers)) return false;
        rules.ends.back().push_back(d.value);
        return true;
      });
    }
    return rules;
  }

 private:
  struct Dying {
    ValueId value;
    Marks readers;
  };

  Marks must_precede(int index) const {
    const Step& step = s_.steps[index];
    Marks marks = none_;
    for (ValueId v : step.in)
      if (made_[v] >= 0) {
        int& mark = marks[static_cast<size_t>(lanes_[made_[v]])];
        mark = std::max(mark, made_[v]);
      }
    for (const Sharing& p : in_place(step)) raise(marks, readers_[root_[step.in[p.in]]]);
    return marks;
  }

  void note_reads(int index) {
    for (ValueId v : touched(index)) readers_[root_[v]][static_cast<size_t>(lanes_[index])] = index;
  }

  // Results count as read: their maker must have ended too.
  std::set<ValueId> touched(int index) const {
    std::set<ValueId> values(s_.steps[index].in.begin(), s_.steps[index].in.end());
    values.insert(s_.steps[index].out.begin(), s_.steps[index].out.end());
    return values;
  }

  const Schedule& s_;
  const std::vector<Lane>& lanes_;
  std::vector<int> made_, last_;
  std::vector<ValueId> root_;   // whose memory a value may be
  std::vector<Marks> readers_;  // of that memory, so far
  std::vector<Marks> after_;    // by step: what has ended when it has
  Marks none_;
};

}  // namespace

LaneRules lane_rules(const Schedule& schedule, const std::vector<Lane>& lanes) {
  return Rules(schedule, lanes).rules();
}

}  // namespace plait
