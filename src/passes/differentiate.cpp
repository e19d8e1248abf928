#include "passes/differentiate.h"

#include <algorithm>

#include "schedule/external.h"

namespace plait {
namespace {

template <class T, class... All>
constexpr bool kIsOneOf = (std::is_same_v<T, All> || ...);

template <class T>
constexpr bool kHasNoTranspose =
    kIsOneOf<T, ActivateGrad, RmsNormGrad, AttentionGrad, EmbedGrad, RowMax, ExpSumTargetGrad, NllGrad, HashRoute,
             RouteGrad, NoiseGrad, NoisyStatsGrad, VariationGrad, GateStatsGrad, BalanceGrad, Load, Count, Nodes,
             CountWithin, Busiest, Arrange, Pair, SumSquares, ClipFactor, AdamW, Sgd, BalanceBias>;

class Backward {
 public:
  Backward(const Schedule& forward, const std::vector<Root>& roots)
      : forward_(forward), b_(forward), cotangents_(forward.names.size()) {
    for (const Root& root : roots) {
      Type type = dual(b_.type(root.value));
      type.grad = true;
      record(b_.leaf(root.kind, root.cotangent, type), root.value);
    }
  }

  Differentiated run() {
    Differentiated result;
    result.num_forward = static_cast<int>(forward_.steps.size());
    for (auto step = forward_.steps.rbegin(); step != forward_.steps.rend(); ++step) {
      step_ = &*step;
      dy_.clear();
      for (ValueId v : step->out) dy_.push_back(total(v));
      if (std::any_of(dy_.begin(), dy_.end(), [](ValueId v) { return v >= 0; }))
        std::visit([&](const auto& op) { back(op); }, step->op);
    }
    for (const Leaf& leaf : forward_.leaves)
      if (leaf.type.grad && (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::data))
        result.gradients[leaf.value] = gradient(leaf);
    result.schedule = b_.take();
    check(result.schedule);
    return result;
  }

 private:
  void record(ValueId cotangent, ValueId of) {
    b_.schedule().cotangent_of[cotangent] = of;
    cotangents_[of].push_back(cotangent);
  }

  // All cotangents of a value have one type, so one add of them is well typed. -1 where nothing reached the value.
  ValueId total(ValueId v) {
    std::vector<ValueId>& all = cotangents_[v];
    if (all.size() > 1) {
      const ValueId sum = b_.add(Add{}, all, "d_" + forward_.names[v]);
      b_.schedule().cotangent_of[sum] = v;
      all = {sum};
    }
    return all.empty() ? -1 : all.front();
  }

  ValueId gradient(const Leaf& leaf) {
    const ValueId v = total(leaf.value);
    if (v < 0)
      throw TypeFault(fmt::format("differentiate: {} %{} does not reach the loss: use it or drop it", name(leaf.kind),
                                  forward_.names[leaf.value]));
    return v;
  }

  const std::vector<ValueId>& in() const { return step_->in; }
  const std::vector<ValueId>& out() const { return step_->out; }

  ValueId cotangent(size_t i) const {
    if (dy_[i] < 0)
      throw TypeFault(fmt::format("differentiate: {} -> %{} needs the cotangents of all its results", name(step_->op),
                                  forward_.names[out()[i]]));
    return dy_[i];
  }

  // A step whose results are cotangents of `of`.
  void give(Op op, std::vector<ValueId> ins, const std::vector<ValueId>& of) {
    std::vector<std::string> names;
    for (ValueId v : of) names.push_back("d_" + forward_.names[v]);
    const std::vector<ValueId> outs = b_.add_named(std::move(op), std::move(ins), names);
    for (size_t i = 0; i < of.size(); ++i) record(outs[i], of[i]);
  }

  void give_rest(const Op& op, size_t operand) {  // of a product: the cotangent times the other operands
    if (!b_.type(in()[operand]).grad) return;
    std::vector<ValueId> ins = {cotangent(0)};
    for (size_t i = 0; i < in().size(); ++i)
      if (i != operand) ins.push_back(in()[i]);
    give(op, std::move(ins), {in()[operand]});
  }

  void back(const Move& op) {
    std::vector<ValueId> ins, of;
    for (size_t i = 0; i < dy_.size(); ++i) {
      if (dy_[i] < 0) continue;
      ins.push_back(dy_[i]);
      of.push_back(in()[i]);
    }
    give(Move{transpose(op.legs)}, ins, of);
  }
  void back(const Einsum&) {
    for (size_t i = 0; i < in().size(); ++i) give_rest(Einsum{b_.type(in()[i]).dim_names()}, i);
  }
  void back(const Add&) {
    for (ValueId v : in()) cotangents_[v].push_back(dy_[0]);
  }
  void back(const Accumulate&) { back(Add{}); }
  void back(const Cast&) { give(Cast{b_.type(in()[0]).dtype}, {dy_[0]}, in()); }
  void back(const Scale& op) { give(op, {dy_[0]}, in()); }
  void back(const Split& op) {
    for (size_t i = 0; i < dy_.size(); ++i) cotangent(i);
    give(Concat{op.dim, op.id}, dy_, in());
  }
  void back(const Concat& op) { give(Split{op.dim, op.id, static_cast<int>(in().size())}, {dy_[0]}, in()); }
  // A copy's cotangent is its share of the whole, so that parameters between dup and pick count each token once.
  double copies(const std::vector<Atom>& atoms) const { return b_.mesh().count(atoms); }
  void back(const Dup& op) { give(Pick{op.dim, op.atoms, op.scale * copies(op.atoms)}, {dy_[0]}, in()); }
  void back(const Pick& op) { give(Dup{op.dim, op.atoms, op.scale / copies(op.atoms)}, {dy_[0]}, in()); }
  void back(const Unflatten& op) { give(Flatten{op.dim, op.major, op.minor}, {dy_[0]}, in()); }
  void back(const Flatten& op) {
    give(Unflatten{op.dim, op.major, op.minor, b_.type(in()[0]).find(op.minor)->size}, {dy_[0]}, in());
  }
  void back(const Pack&) { give(Unpack{b_.type(in()[0]).dims}, {dy_[0]}, in()); }
  void back(const Unpack&) { give(Pack{local_size(b_.mesh(), b_.type(in()[0]).dims.front())}, {dy_[0]}, in()); }
  void back(const Activate& op) { give(ActivateGrad{op.act, op.glu}, {in()[0], dy_[0]}, in()); }
  void back(const RmsNorm& op) { give(RmsNormGrad{op.eps}, {in()[0], in()[1], dy_[0]}, in()); }
  void back(const Rope& op) {
    const Direction other = op.direction == Direction::forward ? Direction::inverse : Direction::forward;
    give(Rope{op.theta, other}, {dy_[0]}, in());
  }
  void back(const Attention&) {
    give(AttentionGrad{}, {in()[0], in()[1], in()[2], out()[0], out()[1], cotangent(0)}, in());
  }
  void back(const Embed&) { give(EmbedGrad{b_.type(in()[0]).dims.front()}, {dy_[0], in()[1]}, {in()[0]}); }
  void back(const ExpSumTarget&) {
    give(ExpSumTargetGrad{}, {in()[0], in()[1], in()[2], cotangent(0), cotangent(1)}, {in()[0]});
  }
  void back(const Nll&) { give(NllGrad{}, {in()[0], in()[2], dy_[0]}, {in()[0], in()[1]}); }
  void back(const Route& op) { give(RouteGrad{op}, {in()[0], out()[1], out()[2], cotangent(0)}, {in()[0]}); }
  void back(const Jitter& op) { give(op, {dy_[0], in()[1]}, {in()[0]}); }
  void back(const GateStats& op) {
    give(GateStatsGrad{op.group, op.score}, {in()[0], in()[1], cotangent(0), cotangent(1)}, {in()[0]});
  }
  void back(const Noise& op) {
    cotangents_[in()[0]].push_back(dy_[0]);
    give(NoiseGrad{op.stream}, {in()[1], in()[2], dy_[0]}, {in()[1]});
  }
  void back(const NoisyStats& op) {
    give(NoisyStatsGrad{op.top_k}, {in()[0], in()[1], in()[2], in()[3], cotangent(0), cotangent(1)},
         {in()[0], in()[1], in()[2]});
  }
  void back(const Variation& op) {
    give(VariationGrad{op.coef}, {in()[0], in()[1], in()[2], dy_[0]}, {in()[0], in()[1]});
  }
  void back(const Balance& op) {
    give(BalanceGrad{op.aux, op.z, op.top_k}, {in()[1], in()[3], in()[4], dy_[0]}, {in()[0], in()[2]});
  }

  void back(const Encode& op) {  // ins: x, [weight], places
    std::vector<ValueId> ins = {dy_[0]};
    ins.insert(ins.end(), in().begin() + 1, in().end());
    give(Decode{op.routing}, ins, {in()[0]});
    if (in().size() == 3) give(Pair{op.routing}, {in()[0], dy_[0], in()[2]}, {in()[1]});
  }
  void back(const Decode& op) {  // ins: rows, [weight], places
    std::vector<ValueId> ins = {dy_[0]};
    ins.insert(ins.end(), in().begin() + 1, in().end());
    give(Encode{op.routing}, ins, {in()[0]});
    if (in().size() == 3 && b_.type(in()[1]).grad) give(Pair{op.routing}, {dy_[0], in()[0], in()[2]}, {in()[1]});
  }

  void back(const External& op) {
    if (!op.record->differentiate) return refuse();
    for (const CotangentOf& c : op.record->differentiate(b_, {*step_, dy_})) {
      expects(std::ranges::find(in(), c.of) != in().end(), "an op's cotangents are those of its operands");
      record(c.value, c.of);
    }
  }

  [[noreturn]] void refuse() const {
    throw TypeFault(
        fmt::format("differentiate: {} -> %{} has no transpose", name(step_->op), forward_.names[out().front()]));
  }

  // Those that no way back leads through: gradients, choices, updates.
  template <class Op>
  requires kHasNoTranspose<Op>
  void back(const Op&) { refuse(); }

  const Schedule& forward_;
  Builder b_;
  std::vector<std::vector<ValueId>> cotangents_;  // by forward value
  const Step* step_ = nullptr;
  std::vector<ValueId> dy_;  // of the step's results, -1 where none
};

}  // namespace

Differentiated differentiate(const Schedule& forward, const std::vector<Root>& roots) {
  return Backward(forward, roots).run();
}

Differentiated differentiate(const Schedule& forward, ValueId loss) { return differentiate(forward, {{loss}}); }

}  // namespace plait
