#include "passes/one_rank.h"

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "passes/rewrite_list.h"
#include "schedule/typing.h"

namespace plait {
namespace {

// Chunks stay, ranks go.
std::vector<Dim> whole(std::vector<Dim> dims) {
  for (Dim& dim : dims) std::erase_if(dim.stack, [](const Mark& mark) { return mark.is_atom(); });
  return dims;
}

class OnOneRank {
 public:
  explicit OnOneRank(const Schedule& source) : source_(source), types_(check(source)), whole_types_(types_.size()) {
    for (size_t v = 0; v < types_.size(); ++v) global_.push_back(static_cast<ValueId>(v));
  }

  OneRank run() {
    Schedule start = source_;
    for (Leaf& leaf : start.leaves) whole_types_[leaf.value] = leaf.type = whole_leaf(leaf);
    Schedule out = replace_steps(start, [this](Schedule&, int index) { return step(index); });
    out.mesh = Mesh();
    for (ValueId& v : out.outputs) v = global_[v];
    out.cotangent_of = cotangents();
    check(out);
    return {std::move(out), std::move(global_)};
  }

 private:
  static Type whole_leaf(const Leaf& leaf) {
    Type type = leaf.type;
    type.holds.clear();
    type.dims = whole(type.dims);
    return type;
  }

  std::vector<Step> step(int index) {
    const Step& step = source_.steps[index];
    if (as<Move>(step.op)) {
      for (size_t i = 0; i < step.out.size(); ++i) global_[step.out[i]] = global_[step.in[i]];
      return {};
    }
    Step one = step;
    for (ValueId& v : one.in) v = global_[v];
    std::visit([&](auto& op) { adapt(op, one, step); }, one.op);
    infer_results(index, one);
    return {one};
  }

  void infer_results(int index, const Step& one) {
    std::vector<Operand> in;
    for (ValueId v : one.in) in.push_back({source_.names[v], &whole_types_[v]});
    const std::string where =
        fmt::format("on one rank, step {} {} -> %{}", index, name(one.op), source_.names[one.out.front()]);
    const std::vector<Type> out = infer({Mesh(), one.op, in, where, source_.precision});
    for (size_t i = 0; i < out.size(); ++i) whole_types_[one.out[i]] = out[i];
  }

  // ---- what an op says about ranks

  template <class T>
  void adapt(T&, const Step&, const Step&) const {}

  // Digits of ranks and their columns are no dims on one rank.
  void adapt(Einsum& op, const Step& one, const Step&) const {
    std::erase_if(op.out, [&](const std::string& label) {
      return std::ranges::none_of(one.in, [&](ValueId v) { return whole_types_[v].has(label); });
    });
  }
  void adapt(EmbedGrad& op, const Step&, const Step&) const { op.vocab = whole({op.vocab}).front(); }
  void adapt(Route& op, const Step&, const Step& source) const { op.group = group(op.group, source); }
  void adapt(RouteGrad& op, const Step&, const Step& source) const { op.route.group = group(op.route.group, source); }
  void adapt(HashRoute& op, const Step&, const Step& source) const { op.group = group(op.group, source); }
  void adapt(Dup&, const Step&, const Step& source) const { refuse(source, "counts the copies that ranks hold"); }
  void adapt(Pick&, const Step&, const Step& source) const {
    refuse(source, "takes one of the copies that ranks hold");
  }
  void adapt(Pack&, const Step&, const Step& source) const { refuse(source, "lies as the ranks that share it out"); }
  void adapt(Unpack&, const Step&, const Step& source) const { refuse(source, "lay as the ranks that share it out"); }

  [[noreturn]] void refuse(const Step& step, std::string_view why) const {
    input_error("{} -> %{}: {}: this list has no form on one rank", name(step.op), source_.names[step.out.front()],
                why);
  }

  // The tokens that are gated together: said, or all that a rank has.
  int64_t group(int64_t said, const Step& source) const {
    return said ? said : local_size(source_.mesh, *types_[source.in[0]].find("T"));
  }

  // Of values that are made here; one that a move made is a cotangent of what the move made of another.
  std::map<ValueId, ValueId> cotangents() const {
    std::map<ValueId, ValueId> all;
    for (const auto& [cotangent, of] : source_.cotangent_of)
      if (global_[cotangent] == cotangent) all[cotangent] = global_[of];
    return all;
  }

  const Schedule& source_;
  const Types types_;
  Types whole_types_;
  std::vector<ValueId> global_;
};

}  // namespace

OneRank on_one_rank(const Schedule& schedule) { return OnOneRank(schedule).run(); }

}  // namespace plait
