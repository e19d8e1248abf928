// One typing rule an op; found by overload. And what rules of several files share.
#pragma once
#include "schedule/typing.h"

namespace plait {

std::vector<Type> infer_op(const StepTyping& step, const Move& op);
std::vector<Type> infer_op(const StepTyping& step, const Einsum& op);
std::vector<Type> infer_op(const StepTyping& step, const Add& op);
std::vector<Type> infer_op(const StepTyping& step, const Scale& op);
std::vector<Type> infer_op(const StepTyping& step, const Cast& op);
std::vector<Type> infer_op(const StepTyping& step, const Split& op);
std::vector<Type> infer_op(const StepTyping& step, const Concat& op);
std::vector<Type> infer_op(const StepTyping& step, const Dup& op);
std::vector<Type> infer_op(const StepTyping& step, const Pick& op);
std::vector<Type> infer_op(const StepTyping& step, const Unflatten& op);
std::vector<Type> infer_op(const StepTyping& step, const Flatten& op);
std::vector<Type> infer_op(const StepTyping& step, const Pack& op);
std::vector<Type> infer_op(const StepTyping& step, const Unpack& op);
std::vector<Type> infer_op(const StepTyping& step, const Activate& op);
std::vector<Type> infer_op(const StepTyping& step, const ActivateGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const RmsNorm& op);
std::vector<Type> infer_op(const StepTyping& step, const RmsNormGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Rope& op);
std::vector<Type> infer_op(const StepTyping& step, const Attention& op);
std::vector<Type> infer_op(const StepTyping& step, const AttentionGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Embed& op);
std::vector<Type> infer_op(const StepTyping& step, const EmbedGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const RowMax& op);
std::vector<Type> infer_op(const StepTyping& step, const ExpSumTarget& op);
std::vector<Type> infer_op(const StepTyping& step, const ExpSumTargetGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Nll& op);
std::vector<Type> infer_op(const StepTyping& step, const NllGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Route& op);
std::vector<Type> infer_op(const StepTyping& step, const RouteGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const GateStats& op);
std::vector<Type> infer_op(const StepTyping& step, const GateStatsGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Load& op);
std::vector<Type> infer_op(const StepTyping& step, const Balance& op);
std::vector<Type> infer_op(const StepTyping& step, const BalanceGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Count& op);
std::vector<Type> infer_op(const StepTyping& step, const Arrange& op);
std::vector<Type> infer_op(const StepTyping& step, const Encode& op);
std::vector<Type> infer_op(const StepTyping& step, const Decode& op);
std::vector<Type> infer_op(const StepTyping& step, const Pair& op);
std::vector<Type> infer_op(const StepTyping& step, const Accumulate& op);
std::vector<Type> infer_op(const StepTyping& step, const SumSquares& op);
std::vector<Type> infer_op(const StepTyping& step, const ClipFactor& op);
std::vector<Type> infer_op(const StepTyping& step, const AdamW& op);
std::vector<Type> infer_op(const StepTyping& step, const Sgd& op);
std::vector<Type> infer_op(const StepTyping& step, const HashRoute& op);
std::vector<Type> infer_op(const StepTyping& step, const Jitter& op);
std::vector<Type> infer_op(const StepTyping& step, const BalanceBias& op);
std::vector<Type> infer_op(const StepTyping& step, const Noise& op);
std::vector<Type> infer_op(const StepTyping& step, const NoiseGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const NoisyStats& op);
std::vector<Type> infer_op(const StepTyping& step, const NoisyStatsGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Variation& op);
std::vector<Type> infer_op(const StepTyping& step, const VariationGrad& op);
std::vector<Type> infer_op(const StepTyping& step, const Nodes& op);
std::vector<Type> infer_op(const StepTyping& step, const Busiest& op);
std::vector<Type> infer_op(const StepTyping& step, const CountWithin& op);
std::vector<Type> infer_op(const StepTyping& step, const External& op);

// Of a type, with other dims and holds.
Type like(const Type& t, std::vector<Dim> dims, std::vector<Hold> holds);
Type integer(Type t, Role role = Role::plain, const std::string& routing = {});
void expect_same_type(const StepTyping& step, size_t a, size_t b);

// Element types of a step. In a list of one precision real and full are the same.
struct ElementTyping {
  const StepTyping& step;
  std::vector<Type>& out;

  Dtype first() const { return step.type(0).dtype; }
  void expect(size_t operand, Dtype want) const;
  void expect(size_t from, size_t to, Dtype want) const;  // operands [from, to), of those that are there
  void give(size_t result, Dtype dtype) const;
  void give_all(Dtype dtype) const;
};

}  // namespace plait
