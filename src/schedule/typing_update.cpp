// Types of the ops after the gradients: norm, clipping, the optimizers.
#include "schedule/typing.h"
#include "schedule/typing_rules.h"

namespace plait {
namespace {

void expect_like_parameter(const StepTyping& step, size_t operand) {
  const Type &param = step.type(0), &t = step.type(operand);
  for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom) {
    if (t.place(atom) == param.place(atom)) continue;
    const char* fix = t.place(atom).hold == Hold::P ? ": leave or scatter the gradient first" : "";
    step.fault(
        operand, atom,
        fmt::format("is {}, the parameter is {}{}", to_string(t.place(atom)), to_string(param.place(atom)), fix));
  }
  if (t.dims != param.dims)
    step.fault(operand,
               fmt::format("is {}, the parameter is {}", to_string(step.mesh, t), to_string(step.mesh, param)));
}

void expect_scalar(const StepTyping& step, size_t operand) {
  const Type& t = step.type(operand);
  if (!t.dims.empty()) step.fault(operand, "is not a scalar");
  for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom)
    if (t.holds[atom] == Hold::P) step.fault(operand, atom, "is a partial sum: leave it first");
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const SumSquares&) {
  expect_operands(step, 1, 1 << 20);
  Type t = step.type(0);
  t.dims.clear();
  t.grad = false;
  for (size_t i = 0; i < step.in.size(); ++i) {
    refuse_partial(step, i);
    if (step.type(i).holds != step.type(0).holds)
      step.fault(i, fmt::format("is held otherwise than %{}: sum squares of values held alike", step.in[0].name));
  }
  for (Hold& hold : t.holds)
    if (hold == Hold::S) hold = Hold::P;
  return {t};
}

std::vector<Type> infer_op(const StepTyping& step, const ClipFactor&) {
  expect_operands(step, 1, 2);
  for (size_t i = 0; i < step.in.size(); ++i) expect_scalar(step, i);
  return {step.type(0), step.type(0)};
}

std::vector<Type> infer_op(const StepTyping& step, const AdamW&) {
  expect_operands(step, 7, 7);
  for (size_t i : {1, 2, 3}) expect_like_parameter(step, i);
  for (size_t i : {4, 5, 6}) expect_scalar(step, i);
  return {step.type(0), step.type(2), step.type(3)};
}

std::vector<Type> infer_op(const StepTyping& step, const Sgd&) {
  expect_operands(step, 4, 4);
  expect_like_parameter(step, 1);
  for (size_t i : {2, 3}) expect_scalar(step, i);
  return {step.type(0)};
}

std::vector<Type> infer_op(const StepTyping& step, const BalanceBias&) {
  expect_operands(step, 2, 3);
  if (step.in.size() == 3) expect_scalar(step, 2);
  for (size_t i : {0, 1})
    for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom)
      if (step.type(i).place(atom).hold != Hold::I) step.fault(i, atom, "must be the same on every rank");
  if (step.type(0).dims != step.type(1).dims) step.fault(1, "is not one load for each bias");
  return {step.type(0)};
}

std::vector<Type> infer(const StepTyping& step) {
  if (step.in.empty()) throw TypeFault(fmt::format("{}: has no operands", step.where));
  std::vector<Type> out = std::visit([&](const auto& op) { return infer_op(step, op); }, step.op);
  traits_of(step.op).elements(ElementTyping{step, out});
  return out;
}

}  // namespace plait
