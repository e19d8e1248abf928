#include "passes/recompute.h"

#include <set>

#include "passes/rewrite_list.h"

namespace plait {
namespace {

bool keeps(const Move& move, KeepMoves keep) {
  const Collective c = collective(move.legs);
  if (c == Collective::none || keep == KeepMoves::none) return false;
  return keep == KeepMoves::all || c != Collective::all_gather;
}

bool keeps(const Op& op, const RecomputePlan& plan) {
  switch (traits_of(op).kept) {
    case Kept::always: return true;
    case Kept::selective: return plan.recompute == Recompute::selective;
    case Kept::again: return false;
    case Kept::message: return keeps(std::get<Move>(op), plan.keep);
  }
  return false;
}

class Recomputing {
 public:
  Recomputing(const Schedule& schedule, const RecomputePlan& plan)
      : in_(schedule), plan_(plan), made_(makers(schedule)), out_(schedule), again_(schedule.names.size(), -1) {
    for (int i = 0; i < plan.num_forward; ++i)
      for (ValueId v : in_.steps[i].in)
        if (block(made_[v]) != block(i)) leaving_.insert(v);
    leaving_.insert(in_.outputs.begin(), in_.outputs.end());
  }

  Schedule run() {
    out_.steps.resize(plan_.num_forward);
    for (size_t i = plan_.num_forward; i < in_.steps.size(); ++i) {
      Step step = in_.steps[i];
      for (ValueId& v : step.in) v = at_hand(v);
      out_.steps.push_back(std::move(step));
    }
    check(out_);
    return std::move(out_);
  }

 private:
  const StepBlock* block(int step) const {
    for (const StepBlock& b : plan_.blocks)
      if (step >= b.first && step < b.last) return &b;
    return nullptr;
  }

  // A parameter as a block loads it: cast, gathered, and unpacked.
  bool loads(const Step& step) const {
    if (!as<Move>(step.op) && !as<Cast>(step.op) && !as<Unpack>(step.op)) return false;
    const ValueId from = step.in.front();
    return made_[from] < 0 ? !as<Unpack>(step.op) : loads(in_.steps[made_[from]]);
  }

  bool kept(ValueId v) const {
    const int step = made_[v];
    if (!block(step) || leaving_.count(v)) return true;
    const Step& maker = in_.steps[step];
    return !loads(maker) && (plan_.recompute == Recompute::none || keeps(maker.op, plan_));
  }

  // The value itself where it is kept; else as it is made again, once.
  ValueId at_hand(ValueId v) {
    if (kept(v)) return v;
    if (again_[v] >= 0) return again_[v];
    const Step& first = in_.steps[made_[v]];
    Step step{first.op, {}, {}};
    for (ValueId operand : first.in) step.in.push_back(at_hand(operand));
    for (ValueId result : first.out) {
      step.out.push_back(out_.add_value(free_name(out_, "re_" + in_.names[result])));
      again_[result] = step.out.back();
    }
    out_.steps.push_back(std::move(step));
    return again_[v];
  }

  const Schedule& in_;
  const RecomputePlan& plan_;
  const std::vector<int> made_;
  Schedule out_;
  std::vector<ValueId> again_;  // by value of the forward list
  std::set<ValueId> leaving_;   // read by another block, or an output
};

}  // namespace

Schedule recompute(const Schedule& schedule, const RecomputePlan& plan) { return Recomputing(schedule, plan).run(); }

}  // namespace plait
