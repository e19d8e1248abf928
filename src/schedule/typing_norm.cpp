// Types of norms, and of what works on each token's elements beside them.
#include "schedule/typing.h"
#include "schedule/typing_rules.h"

namespace plait {
namespace {

void expect_whole(const StepTyping& step, size_t operand, const Dim& dim) {
  for (const Mark& mark : dim.stack)
    if (mark.is_atom())
      step.fault(operand, mark.atom,
                 fmt::format("dim {} must be whole for {}: gather or join it first", dim.name, name(step.op)));
}

void expect_dims_of(const StepTyping& step, size_t operand, size_t other) {
  if (step.type(operand).dims != step.type(other).dims)
    step.fault(operand, fmt::format("is {}, needed are the dims of %{}", to_string(step.mesh, step.type(operand)),
                                    step.in[other].name));
}

// Of operand 0, from these operands.
Type like_first(const StepTyping& step, const std::vector<Operand>& from) {
  const Type& x = step.type(0);
  return like(x, x.dims, holds(step, {.in = from, .out = x.dim_names()}));
}

// What is summed up to these dims.
Type summed(const StepTyping& step, const Type& to, const std::vector<Operand>& from) {
  return like(to, to.dims, holds(step, {.in = from, .out = to.dim_names()}));
}

// A gain [D] of the last dim.
void check_gain(const StepTyping& step) {
  refuse_partial(step, 0);
  expect_dims(step, 0, 1);
  expect_dims(step, 1, 1);
  const Dim& last = step.type(0).dims.back();
  expect_whole(step, 0, last);
  if (step.type(1).dims != std::vector<Dim>{last})
    step.fault(1, fmt::format("is {}, needed is a gain of the last dim of %{}, {}", to_string(step.mesh, step.type(1)),
                              step.in[0].name, to_string(step.mesh, std::vector<Dim>{last})));
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const RmsNorm&) {
  expect_operands(step, 2, 2);
  check_gain(step);
  return {like_first(step, step.in)};
}

std::vector<Type> infer_op(const StepTyping& step, const RmsNormGrad&) {
  expect_operands(step, 3, 3);
  check_gain(step);
  expect_dims_of(step, 2, 0);
  return {like_first(step, step.in), summed(step, step.type(1), {step.in[0], step.in[2]})};
}

namespace {

void check_tokens(const StepTyping& step) {
  refuse_partial(step, 0);
  expect_dims(step, 0, 2);
  if (step.type(0).dims.front().name != "T") step.fault(0, "has no tokens T in front");
}

// s[T] beside x[T, ..].
void check_scale(const StepTyping& step) {
  expect_same_dim(step, step.in[0], step.in[1], "T");
  refuse_partial(step, 1);
  if (step.type(1).dims.size() != 1) step.fault(1, "is not one number a token, [T]");
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const MeanSquare&) {
  expect_operands(step, 1, 1);
  check_tokens(step);
  Type s = step.type(0);
  s.dims = {s.dims.front()};
  return {summed(step, s, step.in)};
}

std::vector<Type> infer_op(const StepTyping& step, const MeanSquareGrad&) {
  expect_operands(step, 2, 2);
  check_tokens(step);
  expect_same_dim(step, step.in[0], step.in[1], "T");
  return {like_first(step, step.in)};
}

namespace {

void check_rms_scale(const StepTyping& step) {
  check_tokens(step);
  check_scale(step);
  const Type& x = step.type(0);
  if (step.type(2).dims != std::vector<Dim>(x.dims.begin() + 1, x.dims.end()))
    step.fault(2, fmt::format("is {}, needed is a gain of all dims of %{} but T", to_string(step.mesh, step.type(2)),
                              step.in[0].name));
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const RmsScale&) {
  expect_operands(step, 3, 3);
  check_rms_scale(step);
  return {like_first(step, step.in)};
}

std::vector<Type> infer_op(const StepTyping& step, const RmsScaleGrad&) {
  expect_operands(step, 4, 4);
  check_rms_scale(step);
  expect_dims_of(step, 3, 0);
  const Operand &x = step.in[0], &s = step.in[1], &gain = step.in[2], &dy = step.in[3];
  return {like_first(step, {s, gain, dy}), summed(step, *s.type, {x, gain, dy}), summed(step, *gain.type, {x, s, dy})};
}

namespace {

// Those that a bias has.
std::vector<Dim> last_dims(const StepTyping& step, size_t count) {
  const std::vector<Dim>& dims = step.type(0).dims;
  if (count > dims.size()) step.fault(0, fmt::format("has {} dims, fewer than the bias", dims.size()));
  return {dims.end() - static_cast<int64_t>(count), dims.end()};
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const AddBias&) {
  expect_operands(step, 2, 2);
  refuse_partial(step, 0);
  refuse_partial(step, 1);
  const std::vector<Dim> last = last_dims(step, step.type(1).dims.size());
  if (step.type(1).dims != last)
    step.fault(1, fmt::format("is {}, needed are the last dims of %{}, {}", to_string(step.mesh, step.type(1)),
                              step.in[0].name, to_string(step.mesh, last)));
  return {like_first(step, step.in)};
}

std::vector<Type> infer_op(const StepTyping& step, const BiasGrad& op) {
  expect_operands(step, 1, 1);
  Type sum = step.type(0);
  sum.dims = last_dims(step, op.dims.size());
  if (sum.dim_names() != op.dims) step.fault(0, fmt::format("does not end with the dims {}", fmt::join(op.dims, ", ")));
  return {summed(step, sum, step.in)};
}

std::vector<Type> infer_op(const StepTyping& step, const Clip&) {
  expect_operands(step, 1, 1);
  refuse_partial(step, 0);
  return {step.type(0)};
}

std::vector<Type> infer_op(const StepTyping& step, const ClipGrad&) {
  expect_operands(step, 2, 2);
  refuse_partial(step, 0);
  expect_dims_of(step, 1, 0);
  return {like_first(step, step.in)};
}

namespace {

void check_gated(const StepTyping& step) {
  check_tokens(step);
  refuse_partial(step, 1);
  expect_same_dim(step, step.in[0], step.in[1], "T");
  const Type& z = step.type(1);
  if (z.dims.size() != 2 || z.dims[1].size != 1) step.fault(1, "is not one gate a token, [T, G=1]");
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const TokenGate&) {
  expect_operands(step, 2, 2);
  check_gated(step);
  return {like_first(step, step.in)};
}

std::vector<Type> infer_op(const StepTyping& step, const TokenGateGrad&) {
  expect_operands(step, 3, 3);
  check_gated(step);
  expect_dims_of(step, 2, 0);
  const Operand &x = step.in[0], &z = step.in[1], &dy = step.in[2];
  return {like_first(step, {z, dy}), summed(step, *z.type, {x, dy})};
}

}  // namespace plait
