// Slices move up and joins move down through what works token by token.
#include <algorithm>
#include <set>

#include "passes/rewrite_list.h"
#include "schedule/builder.h"
#include "schedule/typing.h"

namespace plait {
namespace {

class Hoist {
 public:
  Hoist(const Schedule& source, const Atoms& atoms)
      : source_(source),
        atoms_(atoms),
        types_(check(source)),
        made_(makers(source)),
        out_(source),
        alias_(source.names.size()) {
    for (size_t v = 0; v < alias_.size(); ++v) alias_[v] = static_cast<ValueId>(v);
  }

  Schedule run() {
    out_ = replace_steps(source_, [this](Schedule& out, int index) {
      list_ = &out;
      steps_.clear();
      step(source_.steps[index]);
      return steps_;
    });
    for (ValueId& v : out_.outputs) v = alias_[v];
    check(out_);
    return without_orphans();
  }

 private:
  // Drops what nobody reads any more, and keeps what nobody read before: a loss need not be an output.
  Schedule without_orphans() const {
    const std::vector<int> read = readers(source_);
    Schedule all = out_;
    for (const Step& step : source_.steps)
      if (std::all_of(step.out.begin(), step.out.end(), [&](ValueId v) { return read[v] == 0; }))
        for (ValueId v : step.out) all.outputs.push_back(alias_[v]);
    Schedule kept = drop_unused(all);
    kept.outputs = out_.outputs;
    return kept;
  }

  // How a value of tokens or of ragged rows is cut over the atoms; nothing for any other value.
  Legs cut(const Type& type) const {
    if (type.has("T")) return slice_legs(atoms_, "T");
    if (type.jagged_index() >= 0 && has_cells(type.dim_names())) return slice_legs(atoms_, group_dim);
    return {};
  }

  bool has_cells(const std::vector<std::string>& dims) const {
    return std::all_of(atoms_.begin(), atoms_.end(),
                       [&](Atom a) { return std::find(dims.begin(), dims.end(), group_dim(a)) != dims.end(); });
  }

  bool whole(ValueId v) const {
    return std::all_of(atoms_.begin(), atoms_.end(), [&](Atom a) { return types_[v].place(a).hold == Hold::I; });
  }

  const Step* maker(ValueId v) const { return made_[v] < 0 ? nullptr : &source_.steps[made_[v]]; }

  bool is_cut(const Step& step) const {
    const Move* move = as<Move>(step.op);
    return move && types_[step.in[0]].jagged_index() >= 0 && move->legs == cut(types_[step.in[0]]);
  }

  bool is_joined(ValueId v) const {
    if (joined_.count(v)) return true;
    const Step* step = maker(v);
    const Move* move = step ? as<Move>(step->op) : nullptr;
    return move && step->in.size() == 1 && whole(v) && !cut(types_[v]).empty() &&
           move->legs == transpose(cut(types_[v])) && read_below(v);
  }

  // Whether a join may stand below all that read its result: then nothing needs it here.
  bool read_below(ValueId v) const {
    return std::all_of(source_.steps.begin(), source_.steps.end(), [&](const Step& step) {
      const bool reads = std::find(step.in.begin(), step.in.end(), v) != step.in.end();
      return !reads || traits_of(step.op).hoist.joins == Joins::pass;
    });
  }

  // Whether each token's results are made of that token alone.
  bool token_by_token(const Step& step) const {
    const bool joins = std::all_of(step.in.begin(), step.in.end(), [&](ValueId v) { return is_joined(v); });
    return traits_of(step.op).hoist.slices({{source_.mesh, types_, step}, atoms_, joins});
  }

  ValueId emit(Op op, std::vector<ValueId> in, const Step* like, const std::string& base) {
    Step step{std::move(op), std::move(in), {}};
    const std::vector<Type> out = infer_step(*list_, types_, static_cast<int>(list_->steps.size()), step);
    for (size_t i = 0; i < out.size(); ++i) {
      const std::string& of = like ? source_.names[like->out[i]] : base;
      step.out.push_back(list_->add_value(free_name(*list_, of + ".own")));
      if (like) own_[like->out[i]] = step.out.back();
    }
    types_.insert(types_.end(), out.begin(), out.end());
    steps_.push_back(std::move(step));
    return steps_.back().out.front();
  }

  // This rank's own part of a value.
  ValueId own(ValueId v) {
    if (const auto have = own_.find(v); have != own_.end()) return have->second;
    const Step* step = maker(v);
    if (step && !joined_.count(v) && is_joined(v)) return own_[v] = alias_[step->in[0]];
    if (!step || !token_by_token(*step))
      return own_[v] = emit(Move{cut(types_[v])}, {alias_[v]}, nullptr, source_.names[v]);
    std::vector<ValueId> in;
    for (ValueId u : step->in) in.push_back(cut(types_[u]).empty() ? entered(u) : own(u));
    emit(step->op, in, step, "");
    return own_.at(v);
  }

  // What all tokens use is used by each rank's own ones.
  ValueId entered(ValueId u) {
    if (const auto have = own_.find(u); have != own_.end()) return have->second;
    if (!whole(u) || !types_[u].grad) return alias_[u];
    const Step* step = maker(u);
    const Move* move = step ? as<Move>(step->op) : nullptr;
    const bool entered = move && step->in.size() == 1 && kinds(move->legs) == std::vector<MoveKind>{MoveKind::enter};
    Legs legs = entered ? move->legs : Legs{};
    for (const Leg& leg : enter_legs(atoms_)) legs.push_back(leg);
    return own_[u] = emit(Move{legs}, {alias_[entered ? step->in[0] : u]}, nullptr, source_.names[u]);
  }

  void step(const Step& step) {
    if (is_cut(step) && maker(step.in[0]) && token_by_token(*maker(step.in[0]))) {
      alias_[step.out[0]] = own(step.in[0]);
      return;
    }
    const bool joins = std::any_of(step.in.begin(), step.in.end(), [&](ValueId v) { return is_joined(v); });
    if (joins && step.out.size() == 1 && token_by_token(step)) {
      const ValueId part = own(step.out[0]);
      joined_.insert(step.out[0]);
      steps_.push_back({Move{transpose(cut(types_[step.out[0]]))}, {part}, step.out});
      return;
    }
    Step copy = step;
    for (ValueId& v : copy.in) v = alias_[v];
    steps_.push_back(std::move(copy));
  }

  const Schedule& source_;
  const Atoms atoms_;
  Types types_;  // of the source's values, then of the new ones
  std::vector<int> made_;
  Schedule out_;
  Schedule* list_ = nullptr;
  std::vector<Step> steps_;         // that stand for the present one
  std::vector<ValueId> alias_;      // what a value of the source is now
  std::map<ValueId, ValueId> own_;  // this rank's part of it
  std::set<ValueId> joined_;        // made by a join that stands below what made it before
};

}  // namespace

Schedule hoist(const Schedule& schedule, Axis axis) {
  const Atoms atoms = schedule.mesh.axis(axis);
  return atoms.empty() ? schedule : Hoist(schedule, atoms).run();
}

}  // namespace plait
