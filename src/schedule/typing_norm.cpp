// Types of norms, and of what works on each token's elements beside them.
#include "schedule/typing.h"
#include "schedule/typing_rules.h"

namespace plait {

bool bias_of_experts(const Type& x, const std::vector<std::string>& of_bias) {
  return of_bias.size() == 2 && of_bias[0] == "E" && x.has("E") && x.dims.size() > 2 &&
         x.dims[x.dims.size() - 2].name != "E";
}

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

std::vector<Type> infer_op(const StepTyping& step, const LayerNorm&) {
  expect_operands(step, 3, 3);
  check_gain(step);
  expect_dims_of(step, 2, 1);
  return {like_first(step, step.in)};
}

std::vector<Type> infer_op(const StepTyping& step, const LayerNormGrad&) {
  expect_operands(step, 3, 3);
  check_gain(step);
  expect_dims_of(step, 2, 0);
  const Operand &x = step.in[0], &gain = step.in[1], &dy = step.in[2];
  return {like_first(step, step.in), summed(step, *gain.type, {x, dy}), summed(step, *gain.type, {dy})};
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

// Of operand 0: those that a bias has which names these. The bias of rows names E, which is not beside the last dim.
std::vector<Dim> bias_dims(const StepTyping& step, const std::vector<std::string>& of_bias) {
  const Type& x = step.type(0);
  const size_t count = of_bias.size();
  if (count > x.dims.size()) step.fault(0, fmt::format("has {} dims, fewer than the bias", x.dims.size()));
  if (bias_of_experts(x, of_bias)) return {*x.find("E"), x.dims.back()};
  return {x.dims.end() - static_cast<int64_t>(count), x.dims.end()};
}

// (.. [, table]): the table of rows is behind `operands` others, and only of rows.
void check_bias_operands(const StepTyping& step, size_t operands, const std::vector<std::string>& of_bias) {
  expect_operands(step, operands, operands + 1);
  if (step.in.size() == operands) return;
  if (!bias_of_experts(step.type(0), of_bias)) step.fault(operands, "is read by biases [E, F] of rows alone");
  expect_table(step, operands, step.type(0));
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const AddBias&) {
  expect_operands(step, 2, 3);
  check_bias_operands(step, 2, step.type(1).dim_names());
  refuse_partial(step, 0);
  refuse_partial(step, 1);
  const std::vector<Dim> dims = bias_dims(step, step.type(1).dim_names());
  if (step.type(1).dims != dims)
    step.fault(1, fmt::format("is {}, needed are dims of %{}, {}", to_string(step.mesh, step.type(1)), step.in[0].name,
                              to_string(step.mesh, dims)));
  return {like_first(step, {step.in[0], step.in[1]})};
}

std::vector<Type> infer_op(const StepTyping& step, const BiasGrad& op) {
  check_bias_operands(step, 1, op.dims);
  Type sum = step.type(0);
  sum.dims = bias_dims(step, op.dims);
  if (sum.dim_names() != op.dims) step.fault(0, fmt::format("does not end with the dims {}", fmt::join(op.dims, ", ")));
  return {summed(step, sum, {step.in[0]})};
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
