// An op and its gradient: y = cap * tanh(x / cap), of real numbers in float64.
#include <cmath>

#include "extension/extension.h"
#include "run/external.h"
#include "schedule/testing/external.h"

namespace plait::extension {
namespace {

// (x, dy) -> dx = dy * (1 - tanh(x / cap)^2)
std::vector<Type> infer_softcap_grad(const StepTyping& step, const External&) {
  expect_operands(step, 2, 2);
  refuse_partial(step, 0);
  Type dx = step.type(0);
  dx.holds = holds(step, {.in = step.in, .out = dx.dim_names()});
  return {dx};
}

double slope(double x, double cap) { return 1 - std::tanh(x / cap) * std::tanh(x / cap); }

void loop_softcap_grad(const oracle::Call& c, const External& op) {
  for (int64_t i = 0; i < c.y().size(); ++i) c.y()[i] = c.x(1)[i] * slope(c.x(0)[i], op.number("cap"));
}

Kernel prepare_softcap_grad(const External& op, const StepTypes&) {
  return [cap = op.number("cap")](Call& call) {
    const at::Tensor x = call.in(0), dy = call.in(1), dx = call.make_over(0, 0);
    for (int64_t i = 0; i < x.numel(); ++i)
      dx.mutable_data_ptr<double>()[i] = dy.const_data_ptr<double>()[i] * slope(x.const_data_ptr<double>()[i], cap);
  };
}

constexpr ExternalKernel kGradKernel{.prepare = prepare_softcap_grad};
constexpr oracle::ExternalLoop kGradLoop{.compute = loop_softcap_grad};
constexpr Traits kSoftcapTraits{.memory = traits::kOver,
                                .elements = traits::alike,
                                .cost = traits::streams(5),
                                .kept = Kept::again,
                                .hoist = traits::kStays,
                                .scratch = traits::no_scratch};

}  // namespace

extern const ExternalOp softcap_grad{.name = "softcap_grad",
                                     .attributes = std::vector<Attribute>{{"cap", 1.0}},
                                     .traits = kSoftcapTraits,
                                     .infer = infer_softcap_grad,
                                     .differentiate = nullptr,
                                     .kernel = &kGradKernel,
                                     .loop = &kGradLoop};

namespace {

// x -> y = cap * tanh(x / cap)
std::vector<Type> infer_softcap(const StepTyping& step, const External&) {
  expect_operands(step, 1, 1);
  refuse_partial(step, 0);
  return {step.type(0)};
}

std::vector<CotangentOf> differentiate_softcap(Builder& b, const StepBack& back) {
  const ValueId x = back.step.in[0];
  const std::vector<Attribute>& same = std::get<External>(back.step.op).attributes;
  return {{b.add(external(softcap_grad, same), {x, back.dy[0]}, "d_" + b.schedule().names[x]), x}};
}

void loop_softcap(const oracle::Call& c, const External& op) {
  const double cap = op.number("cap");
  for (int64_t i = 0; i < c.y().size(); ++i) c.y()[i] = cap * std::tanh(c.x(0)[i] / cap);
}

Kernel prepare_softcap(const External& op, const StepTypes&) {
  return [cap = op.number("cap")](Call& call) {
    const at::Tensor x = call.in(0), y = call.make_over(0, 0);
    for (int64_t i = 0; i < x.numel(); ++i)
      y.mutable_data_ptr<double>()[i] = cap * std::tanh(x.const_data_ptr<double>()[i] / cap);
  };
}

constexpr ExternalKernel kKernel{.prepare = prepare_softcap};
constexpr oracle::ExternalLoop kLoop{.compute = loop_softcap};

}  // namespace

extern const ExternalOp softcap{.name = "softcap",
                                .attributes = std::vector<Attribute>{{"cap", 1.0}},
                                .traits = kSoftcapTraits,
                                .infer = infer_softcap,
                                .differentiate = differentiate_softcap,
                                .kernel = &kKernel,
                                .loop = &kLoop};

}  // namespace plait::extension
