// Glue between the ops of a transformer and their kernels: shapes, offsets, memory for results.
#include "kernels/cpu/activation.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/embed.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/vocab_loss.h"
#include "run/kernels.h"

namespace plait {
namespace {

at::Tensor like(Call& call, size_t out, size_t in) {
  return call.make(out, call.in(in).sizes(), call.in(in).scalar_type());
}

// [.., n] as [T, n].
at::Tensor flat(const at::Tensor& x, int64_t columns) { return x.view({columns ? x.numel() / columns : 0, columns}); }
at::Tensor flat(const at::Tensor& x) { return flat(x, x.size(-1)); }

}  // namespace

Kernel prepare(const Add&, const StepTypes&) {
  return [](Call& call) {
    if (call.num_in() == 1) return void(call.take_over(0, 0));
    const at::Tensor out = call.make_over(0, call.ends(0) ? 0 : 1);
    kernels::add(call.in(0), call.in(1), out);
    for (size_t i = 2; i < call.num_in(); ++i) kernels::accumulate(out, call.in(i));
  };
}

Kernel prepare(const Accumulate&, const StepTypes&) {
  return [](Call& call) {
    kernels::accumulate(call.in(0), call.in(1));
    call.alias(0, 0, call.in(0));
  };
}

Kernel prepare(const Scale& op, const StepTypes&) {
  return [factor = op.factor](Call& call) { kernels::scale(call.in(0), factor, call.make_over(0, 0)); };
}

Kernel prepare(const Cast&, const StepTypes& types) {
  const at::ScalarType to = types.scalar(*types.out[0]);
  return [to](Call& call) {
    const at::Tensor &x = call.in(0), y = call.make(0, x.sizes(), to);
    x.scalar_type() == to ? void(y.copy_(x)) : kernels::cast(x, y);
  };
}

Kernel prepare(const Split& op, const StepTypes& types) {
  int64_t dim = 0;
  while (types.in[0]->dims[dim].name != op.dim) ++dim;
  return [dim, parts = op.parts](Call& call) {
    const int64_t size = call.in(0).size(dim) / parts;
    for (int i = 0; i < parts; ++i) {
      const at::Tensor part = call.in(0).narrow(dim, i * size, size);
      part.is_contiguous() ? call.alias(i, 0, part) : void(call.make(i, part.sizes(), part.scalar_type()).copy_(part));
    }
  };
}

Kernel prepare(const Concat& op, const StepTypes& types) {
  int64_t dim = 0;
  while (types.out[0]->dims[dim].name != op.dim) ++dim;
  return [dim, shape = types.shape(*types.out[0])](Call& call) {
    const at::Tensor out = call.make(0, shape, call.in(0).scalar_type());
    const int64_t size = call.in(0).size(dim);
    for (size_t i = 0; i < call.num_in(); ++i) out.narrow(dim, static_cast<int64_t>(i) * size, size).copy_(call.in(i));
  };
}

namespace {

// What a rank holds of copies is its own copy: only the factor is work.
Kernel scaled_copy(double factor) {
  return [factor](Call& call) {
    if (factor == 1) return call.alias(0, 0, call.in(0));
    kernels::scale(call.in(0), factor, like(call, 0, 0));
  };
}

}  // namespace

Kernel prepare(const Dup& op, const StepTypes&) { return scaled_copy(op.scale); }
Kernel prepare(const Pick& op, const StepTypes&) { return scaled_copy(op.scale); }

namespace {

Kernel reshape(const StepTypes& types) {
  return [shape = types.shape(*types.out[0])](Call& call) { call.alias(0, 0, call.in(0).view(shape)); };
}

// x [.., U, F] -> [.., F]
std::vector<int64_t> without_pair(const at::Tensor& x) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.erase(shape.end() - 2);
  return shape;
}

at::Tensor pairs(const at::Tensor& x) {
  const int64_t f = x.size(-1);
  return x.view({f ? x.numel() / (2 * f) : 0, 2, f});
}

}  // namespace

Kernel prepare(const Unflatten&, const StepTypes& types) { return reshape(types); }
Kernel prepare(const Flatten&, const StepTypes& types) { return reshape(types); }

Kernel prepare(const Pack& op, const StepTypes&) {
  return [size = op.size](Call& call) {
    const at::Tensor x = call.in(0).reshape({-1});
    if (x.numel() == size) return call.alias(0, 0, x);
    const at::Tensor out = call.make(0, {size}, x.scalar_type());
    out.narrow(0, 0, x.numel()).copy_(x);
    out.narrow(0, x.numel(), size - x.numel()).zero_();
  };
}

Kernel prepare(const Unpack&, const StepTypes& types) {
  return [shape = types.shape(*types.out[0])](Call& call) {
    call.alias(0, 0, call.in(0).narrow(0, 0, c10::multiply_integers(shape)).view(shape));
  };
}

Kernel prepare(const Activate& op, const StepTypes&) {
  return [op](Call& call) {
    const at::Tensor& x = call.in(0);
    if (!op.glu) return kernels::activate(op.act, x, like(call, 0, 0));
    const at::Tensor y = call.make(0, without_pair(x), x.scalar_type());
    kernels::glu(op.act, pairs(x), flat(y));
  };
}

Kernel prepare(const ActivateGrad& op, const StepTypes&) {
  return [op](Call& call) {
    const at::Tensor x = call.in(0), dy = call.in(1), dx = call.make_over(0, 0);
    op.glu ? kernels::glu_grad(op.act, pairs(x), flat(dy), pairs(dx)) : kernels::activate_grad(op.act, x, dy, dx);
  };
}

Kernel prepare(const RmsNorm& op, const StepTypes&) {
  return [eps = op.eps](Call& call) { kernels::rms_norm(flat(call.in(0)), call.in(1), eps, flat(like(call, 0, 0))); };
}

Kernel prepare(const RmsNormGrad& op, const StepTypes&) {
  return [eps = op.eps](Call& call) {
    const at::Tensor dx = like(call, 0, 0), dgain = like(call, 1, 1);
    kernels::rms_norm_grad({flat(call.in(0)), call.in(1), flat(call.in(2)), flat(dx), dgain}, eps);
  };
}

Kernel prepare(const Rope& op, const StepTypes& types) {
  const Type& x = *types.in[0];
  const auto table = kernels::rope_table(x.find("S")->size, x.find("A")->size, op.theta, types.dtype);
  return [direction = op.direction, table](Call& call) {
    kernels::rope(call.in(0), table, direction, call.make_over(0, 0));
  };
}

Kernel prepare(const Attention&, const StepTypes& types) {
  return [lse = types.shape(*types.out[1]), full = types.scalar(*types.out[1])](Call& call) {
    const at::Tensor o = like(call, 0, 0);
    kernels::attention({call.in(0), call.in(1), call.in(2), o, call.make(1, lse, full)});
  };
}

Kernel prepare(const AttentionGrad&, const StepTypes&) {
  return [](Call& call) {
    const at::Tensor dq = like(call, 0, 0), dk = like(call, 1, 1), dv = like(call, 2, 2);
    kernels::attention_grad({call.in(0), call.in(1), call.in(2), call.in(3), call.in(4), call.in(5), dq, dk, dv});
  };
}

Kernel prepare(const Embed&, const StepTypes& types) {
  const int64_t first = types.range(*types.in[0], "V").first;
  return [first, shape = types.shape(*types.out[0])](Call& call) {
    kernels::embed(call.in(0), call.in(1), first, call.make(0, shape, call.in(0).scalar_type()));
  };
}

Kernel prepare(const EmbedGrad& op, const StepTypes& types) {
  const int64_t first = local_range(types.mesh, op.vocab, types.rank).first;
  return [first, shape = types.shape(*types.out[0])](Call& call) {
    kernels::embed_grad(call.in(0), call.in(1), first, call.make(0, shape, call.in(0).scalar_type()));
  };
}

Kernel prepare(const RowMax&, const StepTypes& types) {
  return [shape = types.shape(*types.out[0])](Call& call) {
    const at::Tensor m = call.make(0, shape, call.in(0).scalar_type());
    kernels::row_max(call.in(0), m.view({m.numel(), 1}));
  };
}

namespace {

kernels::VocabSlice slice(Call& call, int64_t first) {
  const at::Tensor &z = call.in(0), &max = call.in(1);
  return {z, max.view({z.size(0), z.size(0) ? max.numel() / z.size(0) : 1}), call.in(2), first};
}

}  // namespace

Kernel prepare(const ExpSumTarget&, const StepTypes& types) {
  const int64_t first = types.range(*types.in[0], "V").first;
  return [first](Call& call) {
    const at::Tensor& z = call.in(0);
    const at::Tensor s = call.make(0, {z.size(0)}, z.scalar_type()), c = call.make(1, {z.size(0)}, z.scalar_type());
    kernels::exp_sum_target(slice(call, first), {s, c});
  };
}

Kernel prepare(const ExpSumTargetGrad&, const StepTypes& types) {
  const int64_t first = types.range(*types.in[0], "V").first;
  return [first](Call& call) {
    kernels::exp_sum_target_grad(slice(call, first), {call.in(3), call.in(4)}, like(call, 0, 0));
  };
}

Kernel prepare(const Nll&, const StepTypes&) {
  return [](Call& call) {
    kernels::nll({call.in(0), call.in(1)}, call.in(2), call.make(0, {}, call.in(0).scalar_type()));
  };
}

Kernel prepare(const NllGrad&, const StepTypes&) {
  return [](Call& call) {
    const at::Tensor ds = like(call, 0, 0), dc = like(call, 1, 0);
    kernels::nll_grad({call.in(0), call.in(1), call.in(2), {ds, dc}});
  };
}

Kernel prepare(const SumSquares&, const StepTypes&) {
  return [](Call& call) {
    const at::Tensor out = call.make(0, {}, at::kDouble), one = call.scratch({}, at::kDouble);
    out.zero_();
    for (size_t i = 0; i < call.num_in(); ++i) {
      kernels::sum_squares(call.in(i), one);
      *out.mutable_data_ptr<double>() += *one.const_data_ptr<double>();
    }
  };
}

Kernel prepare(const ClipFactor& op, const StepTypes&) {
  return [clip = op.clip](Call& call) {
    const bool scaled = call.num_in() == 2;
    const double scale = scaled ? call.in(1).item<double>() : 1;
    const double norm = std::sqrt(*call.in(0).const_data_ptr<double>()) / scale;
    const double factor = (clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0) / scale;
    *call.make(0, {}, at::kDouble).mutable_data_ptr<double>() = norm;
    *call.make(1, {}, at::kDouble).mutable_data_ptr<double>() = scaled && !std::isfinite(norm) ? NAN : factor;
  };
}

namespace {

bool skips(const at::Tensor& factor) { return std::isnan(*factor.const_data_ptr<double>()); }

}  // namespace

Kernel prepare(const AdamW& op, const StepTypes& types) {
  return [op, tile = types.tile](Call& call) {
    const double lr = *call.in(5).const_data_ptr<double>(), step = *call.in(6).const_data_ptr<double>();
    const kernels::AdamW args{.lr = lr,
                              .beta1 = op.beta1,
                              .beta2 = op.beta2,
                              .eps = op.eps,
                              .weight_decay = op.weight_decay,
                              .step = static_cast<int64_t>(step),
                              .tile = tile};
    if (!skips(call.in(4))) kernels::adamw(args, call.in(4), call.in(0), call.in(1), {call.in(2), call.in(3)});
    for (size_t i = 0; i < 3; ++i) call.alias(i, i ? i + 1 : 0, call.in(i ? i + 1 : 0));
  };
}

Kernel prepare(const Sgd& op, const StepTypes& types) {
  return [decay = op.weight_decay, tile = types.tile](Call& call) {
    const kernels::Sgd args{.lr = *call.in(3).const_data_ptr<double>(), .weight_decay = decay, .tile = tile};
    if (!skips(call.in(2))) kernels::sgd(args, call.in(2), call.in(0), call.in(1));
    call.alias(0, 0, call.in(0));
  };
}

}  // namespace plait
