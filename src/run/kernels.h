// One preparation an op; found by overload.
#pragma once
#include "run/call.h"

namespace plait {
Kernel prepare(const Einsum& op, const StepTypes& types);
Kernel prepare(const Add& op, const StepTypes& types);
Kernel prepare(const Scale& op, const StepTypes& types);
Kernel prepare(const Cast& op, const StepTypes& types);
Kernel prepare(const Split& op, const StepTypes& types);
Kernel prepare(const Concat& op, const StepTypes& types);
Kernel prepare(const Dup& op, const StepTypes& types);
Kernel prepare(const Pick& op, const StepTypes& types);
Kernel prepare(const Unflatten& op, const StepTypes& types);
Kernel prepare(const Flatten& op, const StepTypes& types);
Kernel prepare(const Pack& op, const StepTypes& types);
Kernel prepare(const Unpack& op, const StepTypes& types);
Kernel prepare(const Activate& op, const StepTypes& types);
Kernel prepare(const ActivateGrad& op, const StepTypes& types);
Kernel prepare(const RmsNorm& op, const StepTypes& types);
Kernel prepare(const RmsNormGrad& op, const StepTypes& types);
Kernel prepare(const Rope& op, const StepTypes& types);
Kernel prepare(const Attention& op, const StepTypes& types);
Kernel prepare(const AttentionGrad& op, const StepTypes& types);
Kernel prepare(const Embed& op, const StepTypes& types);
Kernel prepare(const EmbedGrad& op, const StepTypes& types);
Kernel prepare(const RowMax& op, const StepTypes& types);
Kernel prepare(const ExpSumTarget& op, const StepTypes& types);
Kernel prepare(const ExpSumTargetGrad& op, const StepTypes& types);
Kernel prepare(const Nll& op, const StepTypes& types);
Kernel prepare(const NllGrad& op, const StepTypes& types);
Kernel prepare(const Route& op, const StepTypes& types);
Kernel prepare(const RouteGrad& op, const StepTypes& types);
Kernel prepare(const GateStats& op, const StepTypes& types);
Kernel prepare(const GateStatsGrad& op, const StepTypes& types);
Kernel prepare(const Load& op, const StepTypes& types);
Kernel prepare(const Balance& op, const StepTypes& types);
Kernel prepare(const BalanceGrad& op, const StepTypes& types);
Kernel prepare(const Count& op, const StepTypes& types);
Kernel prepare(const Busiest& op, const StepTypes& types);
Kernel prepare(const Nodes& op, const StepTypes& types);
Kernel prepare(const CountWithin& op, const StepTypes& types);
Kernel prepare(const Arrange& op, const StepTypes& types);
Kernel prepare(const Encode& op, const StepTypes& types);
Kernel prepare(const Decode& op, const StepTypes& types);
Kernel prepare(const Pair& op, const StepTypes& types);
Kernel prepare(const Accumulate& op, const StepTypes& types);
Kernel prepare(const SumSquares& op, const StepTypes& types);
Kernel prepare(const ClipFactor& op, const StepTypes& types);
Kernel prepare(const AdamW& op, const StepTypes& types);
Kernel prepare(const Sgd& op, const StepTypes& types);
Kernel prepare(const HashRoute& op, const StepTypes& types);
Kernel prepare(const Jitter& op, const StepTypes& types);
Kernel prepare(const BalanceBias& op, const StepTypes& types);
Kernel prepare(const Noise& op, const StepTypes& types);
Kernel prepare(const NoiseGrad& op, const StepTypes& types);
Kernel prepare(const NoisyStats& op, const StepTypes& types);
Kernel prepare(const NoisyStatsGrad& op, const StepTypes& types);
Kernel prepare(const Variation& op, const StepTypes& types);
Kernel prepare(const VariationGrad& op, const StepTypes& types);
Kernel prepare(const External& op, const StepTypes& types);

}  // namespace plait
