// Glue between norms, positions and attention and their kernels.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/token_gate.h"
#include "run/kernels.h"
#include "schedule/rotary.h"

namespace plait {
namespace {

// [.., n] as [T, n].
at::Tensor rows_of(const at::Tensor& x, int64_t n) { return x.view({n ? x.numel() / n : 0, n}); }
at::Tensor rows_of(const at::Tensor& x) { return rows_of(x, x.size(-1)); }

// [T, ..] as [T, n].
at::Tensor of_tokens(const at::Tensor& x) { return x.flatten(1); }

// Elements of a token, on all ranks.
int64_t in_the_whole(const Type& x) {
  int64_t n = 1;
  for (size_t i = 1; i < x.dims.size(); ++i) n *= x.dims[i].size;
  return n;
}

}  // namespace

Kernel prepare(const RmsNorm& op, const StepTypes&) {
  return [eps = op.eps](Call& call) {
    kernels::rms_norm(rows_of(call.in(0)), call.in(1), eps, rows_of(like(call, 0, 0)));
  };
}

Kernel prepare(const RmsNormGrad& op, const StepTypes&) {
  return [eps = op.eps](Call& call) {
    const at::Tensor dx = like(call, 0, 0), dgain = like(call, 1, 1);
    kernels::rms_norm_grad({rows_of(call.in(0)), call.in(1), rows_of(call.in(2)), rows_of(dx), dgain}, eps);
  };
}

Kernel prepare(const LayerNorm& op, const StepTypes&) {
  return [eps = op.eps](Call& call) {
    kernels::layer_norm({rows_of(call.in(0)), call.in(1), call.in(2), rows_of(like(call, 0, 0))}, eps);
  };
}

Kernel prepare(const LayerNormGrad& op, const StepTypes&) {
  return [eps = op.eps](Call& call) {
    const at::Tensor dx = like(call, 0, 0), dgain = like(call, 1, 1), dbias = like(call, 2, 1);
    kernels::layer_norm_grad({rows_of(call.in(0)), call.in(1), rows_of(call.in(2)), rows_of(dx), dgain, dbias}, eps);
  };
}

Kernel prepare(const MeanSquare&, const StepTypes& types) {
  return [whole = in_the_whole(*types.in[0]), full = types.scalar(*types.out[0])](Call& call) {
    kernels::mean_square(of_tokens(call.in(0)), whole, call.make(0, {call.in(0).size(0)}, full));
  };
}

Kernel prepare(const MeanSquareGrad&, const StepTypes& types) {
  return [whole = in_the_whole(*types.in[0])](Call& call) {
    kernels::mean_square_grad(of_tokens(call.in(0)), call.in(1), whole, of_tokens(like(call, 0, 0)));
  };
}

Kernel prepare(const RmsScale& op, const StepTypes&) {
  return [eps = op.eps](Call& call) {
    const at::Tensor y = like(call, 0, 0);
    kernels::rms_scale(of_tokens(call.in(0)), call.in(1), call.in(2).view({-1}), eps, of_tokens(y));
  };
}

Kernel prepare(const RmsScaleGrad& op, const StepTypes&) {
  return [eps = op.eps](Call& call) {
    const at::Tensor dx = like(call, 0, 0), ds = like(call, 1, 1), dgain = like(call, 2, 2);
    kernels::rms_scale_grad({of_tokens(call.in(0)), call.in(1), call.in(2).view({-1}), of_tokens(call.in(3)),
                             of_tokens(dx), ds, dgain.view({-1})},
                            eps);
  };
}

Kernel prepare(const Clip& op, const StepTypes&) {
  return [bound = op.bound](Call& call) { kernels::clip(call.in(0), bound, like(call, 0, 0)); };
}

Kernel prepare(const ClipGrad& op, const StepTypes&) {
  return [bound = op.bound](Call& call) { kernels::clip_grad(call.in(0), call.in(1), bound, like(call, 0, 0)); };
}

Kernel prepare(const TokenGate&, const StepTypes&) {
  return [](Call& call) { kernels::gated(call.in(0), call.in(1), like(call, 0, 0)); };
}

Kernel prepare(const TokenGateGrad&, const StepTypes&) {
  return [](Call& call) {
    const at::Tensor dx = like(call, 0, 0), dz = like(call, 1, 1);
    kernels::gated_grad({call.in(0), call.in(1), call.in(2), dx, dz});
  };
}

Kernel prepare(const Rope& op, const StepTypes& types) {
  const Type& x = *types.in[0];
  const auto table = kernels::rope_table(x.find("S")->size, rope_frequencies(x.find("A")->size, op.theta, op.scaling),
                                         rope_amplitude(op.scaling), types.dtype);
  return [direction = op.direction, table](Call& call) {
    kernels::rope(call.in(0), table, direction, call.make_over(0, 0));
  };
}

Kernel prepare(const Attention& op, const StepTypes& types) {
  return [window = op.window, lse = types.shape(*types.out[1]), full = types.scalar(*types.out[1])](Call& call) {
    const at::Tensor o = like(call, 0, 0);
    kernels::attention({call.in(0), call.in(1), call.in(2), o, call.make(1, lse, full), window});
  };
}

Kernel prepare(const AttentionGrad& op, const StepTypes&) {
  return [window = op.window](Call& call) {
    const at::Tensor dq = like(call, 0, 0), dk = like(call, 1, 1), dv = like(call, 2, 2);
    kernels::attention_grad(
        {call.in(0), call.in(1), call.in(2), call.in(3), call.in(4), call.in(5), dq, dk, dv, window});
  };
}

}  // namespace plait
