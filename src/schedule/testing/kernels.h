// One rank's part of one step that does not communicate; found by overload.
#pragma once
#include "schedule/op.h"
#include "schedule/testing/array.h"

namespace plait::oracle {

struct Call {
  const Mesh& mesh;
  int rank;
  std::vector<const Type*> in_types, out_types;
  std::vector<const Array*> in;
  std::vector<Array>& out;  // shaped and zero

  const Array& x(size_t operand) const { return *in[operand]; }
  Array& y(size_t result = 0) const { return out[result]; }
  const Type& type(size_t operand) const { return *in_types[operand]; }
};

void compute(const Call& c, const Einsum& op);
void compute(const Call& c, const Add& op);
void compute(const Call& c, const Scale& op);
void compute(const Call& c, const Cast& op);
void compute(const Call& c, const Split& op);
void compute(const Call& c, const Concat& op);
void compute(const Call& c, const Dup& op);
void compute(const Call& c, const Pick& op);
void compute(const Call& c, const Unflatten& op);
void compute(const Call& c, const Flatten& op);
void compute(const Call& c, const Pack& op);
void compute(const Call& c, const Unpack& op);
void compute(const Call& c, const Activate& op);
void compute(const Call& c, const ActivateGrad& op);
void compute(const Call& c, const RmsNorm& op);
void compute(const Call& c, const RmsNormGrad& op);
void compute(const Call& c, const Rope& op);
void compute(const Call& c, const Attention& op);
void compute(const Call& c, const AttentionGrad& op);
void compute(const Call& c, const Embed& op);
void compute(const Call& c, const EmbedGrad& op);
void compute(const Call& c, const RowMax& op);
void compute(const Call& c, const ExpSumTarget& op);
void compute(const Call& c, const ExpSumTargetGrad& op);
void compute(const Call& c, const Nll& op);
void compute(const Call& c, const NllGrad& op);
void compute(const Call& c, const Route& op);
void compute(const Call& c, const RouteGrad& op);
void compute(const Call& c, const GateStats& op);
void compute(const Call& c, const GateStatsGrad& op);
void compute(const Call& c, const Load& op);
void compute(const Call& c, const Balance& op);
void compute(const Call& c, const BalanceGrad& op);
void compute(const Call& c, const Count& op);
void compute(const Call& c, const Arrange& op);
void compute(const Call& c, const Encode& op);
void compute(const Call& c, const Decode& op);
void compute(const Call& c, const Pair& op);
void compute(const Call& c, const Accumulate& op);
void compute(const Call& c, const SumSquares& op);
void compute(const Call& c, const ClipFactor& op);
void compute(const Call& c, const AdamW& op);
void compute(const Call& c, const Sgd& op);
void compute(const Call& c, const HashRoute& op);
void compute(const Call& c, const Jitter& op);
void compute(const Call& c, const BalanceBias& op);
void compute(const Call& c, const Noise& op);
void compute(const Call& c, const NoiseGrad& op);
void compute(const Call& c, const NoisyStats& op);
void compute(const Call& c, const NoisyStatsGrad& op);
void compute(const Call& c, const Variation& op);
void compute(const Call& c, const VariationGrad& op);
void compute(const Call& c, const Nodes& op);
void compute(const Call& c, const CountWithin& op);
void compute(const Call& c, const Busiest& op);
void compute(const Call& c, const External& op);

}  // namespace plait::oracle
