// Types of the ops of a gate: the choice, what it reads, its statistics and losses.
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

// Without a group, tokens that decide together would be those of a rank, whatever the layout.
void expect_known_choice(const StepTyping& step, const Route& op) {
  if (op.gate->reads == Reads::ids) step.fault(0, fmt::format("has no ids, by which gate {} chooses", op.gate->name));
  if (op.gate->chooser != Chooser::token && op.group == 0)
    step.fault(0, fmt::format("tokens decide together in gate {}: say in groups of how many", op.gate->name));
}

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
  const size_t operands = 2 + (op.gate->bias ? 1 : 0) + (op.draws() ? 1 : 0);
  expect_operands(step, operands, operands);
  expect_known_choice(step, op);
  for (size_t i = 2; i < operands; ++i) expect_everywhere(step, i);
  refuse_partial(step, 0);
  expect_whole_experts(step);
  if (op.gate->bias && step.type(2).dims != std::vector<Dim>{{"E", step.type(0).dims.back().size}})
    step.fault(2, "is not one bias for each expert");
  expect_same_dim(step, step.in[0], step.in[1], "T");
  const Type& logits = step.type(0);
  const std::vector<Dim> dims = route_dims(logits, op.top_k);
  if (op.top_k > logits.dims.back().size)
    step.fault(0,
               fmt::format("has {} experts, fewer than the {} routes of a token", logits.dims.back().size, op.top_k));
  expect_groups(step, *logits.find("T"), op.group);
  const Type weight = like(logits, dims, holds(step, {.in = {step.in[0], step.in[1]}, .out = names(dims)}));
  return {weight, integer(weight), integer(weight)};
}

std::vector<Type> infer_op(const StepTyping& step, const HashRoute& op) {
  expect_operands(step, 2, 2);
  expect_same_type(step, 0, 1);
  if (op.top_k > op.experts)
    step.fault(0, fmt::format("has {} experts, fewer than the {} routes of a token", op.experts, op.top_k));
  const Type& ids = step.type(0);
  const Dim& tokens = expect_dim(step, 0, "T");
  expect_groups(step, tokens, op.group);
  Type weight = like(ids, {tokens, {"K", op.top_k}}, ids.holds);
  const Type routes = integer(weight);
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
  return {like(logits, logits.dims, holds(step, {.in = {step.in[0], step.in[3]}, .out = logits.dim_names()}))};
}

namespace {

// The dim W of statistics for every `group` tokens: cut where the ranks of an atom have whole groups.
Dim groups_of(const StepTyping& step, int64_t group) {
  const Dim& t = expect_dim(step, 0, "T");
  if (t.size % group) step.fault(0, fmt::format("{} tokens are not groups of {}", t.size, group));
  Dim w{"W", t.size / group};
  int64_t parts = 1;
  for (const Mark& mark : t.stack) {
    if (!mark.is_atom()) step.fault(0, "the token dim is chunked");
    parts *= step.mesh.size(mark.atom);
    if (w.size % parts) break;
    w.stack.push_back(mark);
  }
  return w;
}

// A sum over tokens: [E], or one for each group.
Type sum_over_tokens(const StepTyping& step, Type sum, int64_t group) {
  if (group == 0) return sum;
  const Dim w = groups_of(step, group);
  for (const Mark& mark : w.stack) sum.holds[mark.atom] = Hold::S;
  sum.dims.insert(sum.dims.begin(), w);
  return sum;
}

// A rank's tokens read the groups that it holds: as any value that is the same for all of them.
Type read_by_tokens(Type t) {
  if (!t.has("W")) return t;
  for (const Mark& mark : t.dims.front().stack)
    if (mark.is_atom()) t.holds[mark.atom] = Hold::R;
  t.dims.erase(t.dims.begin());
  return t;
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const GateStats& op) {
  expect_operands(step, 2, 2);
  refuse_partial(step, 0);
  expect_whole_experts(step);
  expect_same_dim(step, step.in[0], step.in[1], "T");
  const Type& logits = step.type(0);
  const Type psum = like(logits, {logits.dims.back()}, holds(step, {.in = step.in, .out = {"E"}}));
  return {sum_over_tokens(step, psum, op.group), sum_over_tokens(step, like(psum, {}, psum.holds), op.group)};
}

std::vector<Type> infer_op(const StepTyping& step, const GateStatsGrad& op) {
  expect_operands(step, 4, 4);
  refuse_partial(step, 0);
  const Type &logits = step.type(0), dpsum = read_by_tokens(step.type(2));
  if (step.type(2).holds != step.type(3).holds)
    step.fault(3, fmt::format("is held otherwise than %{}", step.in[2].name));
  if (op.group > 0 && (step.type(2).dims.empty() || step.type(2).dims.front() != groups_of(step, op.group)))
    step.fault(2, fmt::format("is not one row for each of this rank's groups of {} tokens", op.group));
  const std::vector<Operand> in = {step.in[0], step.in[1], {step.in[2].name, &dpsum}};
  return {like(logits, logits.dims, holds(step, {.in = in, .out = logits.dim_names()}))};
}

std::vector<Type> infer_op(const StepTyping& step, const Load& op) {
  expect_operands(step, 2, 2);
  expect_same_type(step, 0, 1);
  Type t = step.type(0);
  for (Hold& hold : t.holds)
    if (hold == Hold::S) hold = Hold::P;
  t.dims = {{"E", op.experts}};
  t.dtype = Dtype::real;
  t = sum_over_tokens(step, t, op.group);
  return {t, t};
}

std::vector<Type> infer_op(const StepTyping& step, const Balance&) {
  expect_operands(step, 5, 5);
  if (step.type(2).holds != step.type(0).holds)
    step.fault(2, fmt::format("is held otherwise than %{}", step.in[0].name));
  expect_same_dim(step, step.in[0], step.in[1], "E");
  if (step.type(0).has("W")) {
    expect_same_dim(step, step.in[0], step.in[1], "W");
    refuse_partial(step, 1);
  }
  return {like(step.type(0), {}, holds(step, {.in = {step.in[0], step.in[1]}, .out = {}}))};
}

std::vector<Type> infer_op(const StepTyping& step, const BalanceGrad&) {
  expect_operands(step, 4, 4);
  expect_dims(step, 0, 1);
  const std::vector<Dim>& dims = step.type(0).dims;
  const std::vector<Hold> held = holds(step, {.in = {step.in[0], step.in[3]}, .out = step.type(0).dim_names()});
  return {like(step.type(3), dims, held), like(step.type(3), {dims.begin(), dims.end() - 1}, held)};
}

std::vector<Type> infer_op(const StepTyping& step, const Noise&) {
  expect_operands(step, 3, 3);
  for (size_t i : {0, 1}) refuse_partial(step, i);
  expect_same_type(step, 0, 1);
  expect_everywhere(step, 2);
  return {step.type(0)};
}

std::vector<Type> infer_op(const StepTyping& step, const NoiseGrad&) {
  expect_operands(step, 3, 3);
  refuse_partial(step, 0);
  expect_same_type(step, 0, 2);
  const std::vector<Dim>& dims = step.type(0).dims;
  return {like(step.type(0), dims, holds(step, {.in = {step.in[0], step.in[2]}, .out = names(dims)}))};
}

std::vector<Type> infer_op(const StepTyping& step, const NoisyStats& op) {
  expect_operands(step, 4, 4);
  expect_whole_experts(step);
  for (size_t i : {0, 1, 2}) {
    refuse_partial(step, i);
    expect_same_type(step, 0, i);
  }
  expect_same_dim(step, step.in[0], step.in[3], "T");
  const Dim& experts = step.type(0).dims.back();
  if (op.top_k > experts.size)
    step.fault(0, fmt::format("has {} experts, fewer than the {} routes of a token", experts.size, op.top_k));
  const Type sum = like(step.type(0), {experts}, holds(step, {.in = step.in, .out = {"E"}}));
  return {sum, sum};
}

std::vector<Type> infer_op(const StepTyping& step, const NoisyStatsGrad&) {
  expect_operands(step, 6, 6);
  for (size_t i : {0, 1, 2}) refuse_partial(step, i);
  if (step.type(4).holds != step.type(5).holds)
    step.fault(5, fmt::format("is held otherwise than %{}", step.in[4].name));
  const Type& logits = step.type(0);
  const std::vector<Operand> in = {step.in[0], step.in[3], step.in[4]};
  const Type t = like(logits, logits.dims, holds(step, {.in = in, .out = logits.dim_names()}));
  return {t, t, t};
}

std::vector<Type> infer_op(const StepTyping& step, const Variation&) {
  expect_operands(step, 3, 3);
  expect_same_type(step, 0, 1);
  for (size_t i : {0, 1}) refuse_partial(step, i);
  return {like(step.type(0), {}, holds(step, {.in = {step.in[0], step.in[1]}, .out = {}}))};
}

std::vector<Type> infer_op(const StepTyping& step, const VariationGrad&) {
  expect_operands(step, 4, 4);
  const std::vector<Dim>& dims = step.type(0).dims;
  const Type t = like(step.type(3), dims, holds(step, {.in = {step.in[0], step.in[1], step.in[3]}, .out = {"E"}}));
  return {t, t};
}

}  // namespace plait
