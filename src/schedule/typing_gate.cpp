// Types of the ops of a gate: routes and statistics.
#include <algorithm>

#include "schedule/typing.h"
#include "schedule/typing_rules.h"

namespace plait {
namespace {

void expect_whole_experts(const StepTyping& step) {
  const Type& logits = step.type(0);
  if (logits.dims.empty() || logits.dims.back().name != "E") step.fault(0, "is not logits [.., E]");
  for (const Mark& mark : logits.dims.back().stack)
    if (mark.is_atom())
      step.fault(0, mark.atom, fmt::format("{} needs every expert's logit: gather E first", name(step.op)));
}

std::vector<Dim> route_dims(const Type& logits, int64_t top_k) {
  std::vector<Dim> dims(logits.dims.begin(), logits.dims.end() - 1);
  dims.push_back({"K", top_k});
  return dims;
}

}  // namespace

Type integer_like(Type t, Role role, const std::string& routing) {
  t.grad = false;
  t.dtype = Dtype::integer;
  t.role = role;
  t.routing = routing;
  return t;
}

Type type_like(const Type& t, std::vector<Dim> dims, std::vector<Hold> holds) {
  Type out = t;
  out.dims = std::move(dims);
  out.holds = std::move(holds);
  return out;
}

void expect_same_type(const StepTyping& step, size_t a, size_t b) {
  if (step.type(a).dims != step.type(b).dims)
    step.fault(b, fmt::format("is {}, %{} is {}", to_string(step.mesh, step.type(b)), step.in[a].name,
                              to_string(step.mesh, step.type(a))));
}

namespace {

void expect_groups(const StepTyping& step, const Dim& tokens, int64_t group) {
  if (const int64_t local = local_size(step.mesh, tokens); group && local % group)
    step.fault(0, fmt::format("a rank gates {} tokens, which gate groups of {} cut: choose a group that divides them",
                              local, group));
}

// A bias or a key: of the same value on every rank.
void expect_everywhere(const StepTyping& step, size_t operand) {
  const Type& t = step.type(operand);
  if (t.grad) step.fault(operand, "has a gradient, which a choice cannot pass on");
  for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom)
    if (t.place(atom).hold != Hold::I) step.fault(operand, atom, "must be the same on every rank");
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const Route& op) {
  const size_t operands = 2 + (op.gate == Gate::sigmoid ? 1 : 0) + (op.draws() ? 1 : 0);
  expect_operands(step, operands, operands);
  for (size_t i = 2; i < operands; ++i) expect_everywhere(step, i);
  if (op.gate == Gate::sigmoid && step.type(2).dims != std::vector<Dim>{{"E", step.type(0).dims.back().size}})
    step.fault(2, "is not one bias for each expert");
  refuse_partial(step, 0);
  expect_whole_experts(step);
  expect_same_dim(step, step.in[0], step.in[1], "T");
  const Type& logits = step.type(0);
  const std::vector<Dim> dims = route_dims(logits, op.top_k);
  if (op.top_k > logits.dims.back().size)
    step.fault(0,
               fmt::format("has {} experts, fewer than the {} routes of a token", logits.dims.back().size, op.top_k));
  expect_groups(step, *logits.find("T"), op.group);
  const Type weight = type_like(logits, dims, holds(step, {.in = {step.in[0], step.in[1]}, .out = names(dims)}));
  return {weight, integer_like(weight), integer_like(weight)};
}

std::vector<Type> infer_op(const StepTyping& step, const HashRoute& op) {
  expect_operands(step, 2, 2);
  expect_same_type(step, 0, 1);
  if (op.top_k > op.experts)
    step.fault(0, fmt::format("has {} experts, fewer than the {} routes of a token", op.experts, op.top_k));
  const Type& ids = step.type(0);
  expect_groups(step, *ids.find("T"), op.group);
  Type weight = type_like(ids, {*ids.find("T"), {"K", op.top_k}}, ids.holds);
  const Type routes = integer_like(weight);
  weight.dtype = Dtype::real;
  return {weight, routes, routes};
}

std::vector<Type> infer_op(const StepTyping& step, const Jitter&) {
  expect_operands(step, 2, 2);
  expect_everywhere(step, 1);
  if (!step.type(0).has("T") || step.type(0).dims.size() != 2) step.fault(0, "is not tokens [T, D]");
  return {step.type(0)};
}

std::vector<Type> infer_op(const StepTyping& step, const RouteGrad&) {
  expect_operands(step, 4, 4);
  refuse_partial(step, 0);
  expect_same_type(step, 1, 2);
  expect_same_type(step, 1, 3);
  const Type& logits = step.type(0);
  return {type_like(logits, logits.dims, holds(step, {.in = {step.in[0], step.in[3]}, .out = logits.dim_names()}))};
}

std::vector<Type> infer_op(const StepTyping& step, const GateStats&) {
  expect_operands(step, 2, 2);
  refuse_partial(step, 0);
  expect_whole_experts(step);
  expect_same_dim(step, step.in[0], step.in[1], "T");
  const Type& logits = step.type(0);
  const Type psum = type_like(logits, {logits.dims.back()}, holds(step, {.in = step.in, .out = {"E"}}));
  return {psum, type_like(psum, {}, psum.holds)};
}

std::vector<Type> infer_op(const StepTyping& step, const GateStatsGrad&) {
  expect_operands(step, 4, 4);
  refuse_partial(step, 0);
  const Type& logits = step.type(0);
  if (step.type(2).holds != step.type(3).holds)
    step.fault(3, fmt::format("is held otherwise than %{}", step.in[2].name));
  return {type_like(logits, logits.dims,
                    holds(step, {.in = {step.in[0], step.in[1], step.in[2]}, .out = logits.dim_names()}))};
}

std::vector<Type> infer_op(const StepTyping& step, const Load& op) {
  expect_operands(step, 2, 2);
  expect_same_type(step, 0, 1);
  Type t = step.type(0);
  for (Hold& hold : t.holds)
    if (hold == Hold::S) hold = Hold::P;
  t.dims = {{"E", op.experts}};
  t.dtype = Dtype::real;
  return {t, t};
}

std::vector<Type> infer_op(const StepTyping& step, const Balance&) {
  expect_operands(step, 5, 5);
  if (step.type(2).holds != step.type(0).holds)
    step.fault(2, fmt::format("is held otherwise than %{}", step.in[0].name));
  expect_same_dim(step, step.in[0], step.in[1], "E");
  return {type_like(step.type(0), {}, holds(step, {.in = {step.in[0], step.in[1]}, .out = {}}))};
}

std::vector<Type> infer_op(const StepTyping& step, const BalanceGrad&) {
  expect_operands(step, 4, 4);
  const std::vector<Hold> held = holds(step, {.in = {step.in[0], step.in[3]}, .out = {"E"}});
  return {type_like(step.type(3), step.type(0).dims, held), type_like(step.type(3), {}, held)};
}

}  // namespace plait
