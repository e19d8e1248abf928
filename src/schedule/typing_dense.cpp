// Types of the ops that every transformer has: products, shapes, norm, attention, embedding, loss.
#include <algorithm>

#include "schedule/contraction.h"
#include "schedule/typing.h"
#include "schedule/typing_rules.h"

namespace plait {
namespace {

Type side(Type t) {
  t.grad = false;
  return t;
}

// A one-hot [T, V] that is never made: tokens as ids hold them, columns as this rank's part of the vocabulary.
Type one_hot(const Type& ids, const Dim& vocab) {
  Type t = ids;
  t.dims.push_back(vocab);
  t.dtype = Dtype::real;
  for (const Mark& mark : vocab.stack)
    if (mark.is_atom()) t.holds[mark.atom] = Hold::S;
  return side(t);
}

Type with_dims(const Type& like, std::vector<Dim> dims, std::vector<Hold> holds) {
  Type t = like;
  t.dims = std::move(dims);
  t.holds = std::move(holds);
  return t;
}

std::vector<Type> same_dims(const StepTyping& step) {
  for (size_t i = 1; i < step.in.size(); ++i)
    if (step.type(i).dims != step.type(0).dims)
      step.fault(i, fmt::format("is {}, %{} is {}", to_string(step.mesh, step.type(i)), step.in[0].name,
                                to_string(step.mesh, step.type(0))));
  return {step.type(0)};
}

void expect_whole(const StepTyping& step, size_t operand, const std::string& dim) {
  const Dim* d = step.type(operand).find(dim);
  if (!d) step.fault(operand, fmt::format("has no dim {}", dim));
  for (const Mark& mark : d->stack)
    if (mark.is_atom())
      step.fault(operand, mark.atom,
                 fmt::format("dim {} must be whole for {}: gather or join it first", dim, name(step.op)));
}

Type without_gate_pair(const StepTyping& step, Type t) {
  const size_t u = t.dims.size() < 2 ? 0 : t.dims.size() - 2;
  if (t.dims.size() < 2 || t.dims[u].name != "U" || t.dims[u].size != 2 || !t.dims[u].stack.empty())
    step.fault(0, "glu needs dims [.., U=2, F]");
  t.dims.erase(t.dims.begin() + static_cast<long>(u));
  return t;
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const Einsum& op) {
  expect_operands(step, 2, 3);
  const Operand &a = step.in[0], &b = step.in[1];
  std::vector<Dim> known = a.type->dims;
  for (const Dim& dim : b.type->dims) {
    if (a.type->has(dim.name))
      expect_same_dim(step, a, b, dim.name);
    else
      known.push_back(dim);
  }
  if (!contraction(a.type->dim_names(), b.type->dim_names(), op.out)) {
    step.fault(1, fmt::format("[{}] x [{}] -> [{}] is not one matrix product of known layout",
                              fmt::join(a.type->dim_names(), " "), fmt::join(b.type->dim_names(), " "),
                              fmt::join(op.out, " ")));
  }
  if (step.in.size() == 3) {
    const Type& rows = a.type->jagged_index() >= 0 ? *a.type : *b.type;
    const Type& table = step.type(2);
    if (rows.jagged_index() < 0 || table.role != Role::table || table.dims != rows.prefix() ||
        table.routing != rows.dims[rows.jagged_index()].table)
      step.fault(2, fmt::format("is {}, needed is the table of the rows as {}", to_string(step.mesh, table),
                                to_string(step.mesh, rows.prefix())));
  }
  std::vector<Dim> dims;
  for (const std::string& label : op.out) {
    const auto dim = std::find_if(known.begin(), known.end(), [&](const Dim& d) { return d.name == label; });
    if (dim == known.end()) step.fault(0, fmt::format("has no dim {}, nor has %{}", label, b.name));
    dims.push_back(*dim);
  }
  Type t = with_dims(*a.type, dims, holds(step, {.in = {a, b}, .out = op.out}));
  t.grad = a.type->grad || b.type->grad;
  t.dtype = Dtype::real;
  return {t};
}

std::vector<Type> infer_op(const StepTyping& step, const Add&) {
  for (size_t i = 1; i < step.in.size(); ++i) {
    for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom) {
      const Place p = step.type(i).place(atom), q = step.type(0).place(atom);
      if (p != q) step.fault(i, atom, fmt::format("adds {} to {}: move one of them", to_string(p), to_string(q)));
    }
  }
  return same_dims(step);
}

std::vector<Type> infer_op(const StepTyping& step, const Accumulate&) {
  expect_operands(step, 2, 2);
  return infer_op(step, Add{});
}

std::vector<Type> infer_op(const StepTyping& step, const Scale&) { return {step.type(0)}; }

std::vector<Type> infer_op(const StepTyping& step, const Cast& op) {
  expect_operands(step, 1, 1);
  const auto is_cast = [](Dtype d) { return d == Dtype::real || d == Dtype::full; };
  if (!is_cast(step.type(0).dtype) || !is_cast(op.to)) step.fault(0, "only real numbers are cast");
  return {step.type(0)};
}

std::vector<Type> infer_op(const StepTyping& step, const Split& op) {
  std::vector<Type> out;
  const Dim* dim = step.type(0).find(op.dim);
  if (!dim) step.fault(0, fmt::format("has no dim {}", op.dim));
  if (dim->jagged() || local_size(step.mesh, *dim) % op.parts)
    step.fault(0, fmt::format("dim {} of {} local entries does not split in {}", op.dim, local_size(step.mesh, *dim),
                              op.parts));
  for (int i = 0; i < op.parts; ++i) {
    Type t = step.type(0);
    Dim& d = *t.find(op.dim);
    d.size /= op.parts;
    d.stack.push_back({.split = op.id, .part = i, .parts = op.parts});
    out.push_back(t);
  }
  return out;
}

std::vector<Type> infer_op(const StepTyping& step, const Concat& op) {
  Type first;
  const int parts = static_cast<int>(step.in.size());
  for (int i = 0; i < parts; ++i) {
    Type t = step.type(i);
    Dim* d = t.find(op.dim);
    const Mark want{.split = op.id, .part = i, .parts = parts};
    if (!d || d->stack.empty() || d->stack.back() != want)
      step.fault(
          i, fmt::format(
                 "is not chunk {} of {} of the split {} (innermost along {}): undo what came after the split first", i,
                 parts, op.id, op.dim));
    d->size *= parts;
    d->stack.pop_back();
    if (i == 0) first = t;
    if (t != first)
      step.fault(i,
                 fmt::format("chunk {} is {}, chunk 0 is {}", i, to_string(step.mesh, t), to_string(step.mesh, first)));
  }
  return {first};
}

std::vector<Type> infer_op(const StepTyping& step, const Dup& op) {
  expect_operands(step, 1, 1);
  Type t = step.type(0);
  if (!t.has(op.dim)) step.fault(0, fmt::format("has no dim {}", op.dim));
  for (Atom atom : op.atoms) {
    if (t.place(atom).hold != Hold::I)
      step.fault(0, atom,
                 fmt::format("is {}: only what all ranks hold, I, can be taken as copies", to_string(t.place(atom))));
    Dim& dim = *t.find(op.dim);
    dim.size *= step.mesh.size(atom);
    dim.stack.push_back({.atom = atom});
    t.holds[atom] = Hold::S;
  }
  return {t};
}

std::vector<Type> infer_op(const StepTyping& step, const Pick& op) {
  expect_operands(step, 1, 1);
  Type t = step.type(0);
  for (auto atom = op.atoms.rbegin(); atom != op.atoms.rend(); ++atom) {
    Dim* dim = t.find(op.dim);
    if (!dim || dim->stack.empty() || dim->stack.back().atom != *atom)
      step.fault(0, *atom,
                 fmt::format("is {}: pick needs S({}) with this axis innermost: slice it first",
                             to_string(t.place(*atom)), op.dim));
    dim->size /= step.mesh.size(*atom);
    dim->stack.pop_back();
    t.holds[*atom] = Hold::I;
  }
  return {t};
}

std::vector<Type> infer_op(const StepTyping& step, const Unflatten& op) {
  Type t = step.type(0);
  auto it = std::find_if(t.dims.begin(), t.dims.end(), [&](const Dim& d) { return d.name == op.dim; });
  if (it == t.dims.end()) step.fault(0, fmt::format("has no dim {}", op.dim));
  const int64_t local = local_size(step.mesh, *it);
  if (local % op.minor_size)
    step.fault(0, fmt::format("holds {} entries of {} on a rank, which do not divide by {} {}: gather over tp first",
                              local, op.dim, op.minor, op.minor_size));
  const Dim major{op.major, it->size / op.minor_size, it->stack}, minor{op.minor, op.minor_size};
  *it = major;
  t.dims.insert(it + 1, minor);
  return {t};
}

std::vector<Type> infer_op(const StepTyping& step, const Flatten& op) {
  Type t = step.type(0);
  auto major = std::find_if(t.dims.begin(), t.dims.end(), [&](const Dim& d) { return d.name == op.major; });
  if (major == t.dims.end() || major + 1 == t.dims.end() || (major + 1)->name != op.minor ||
      !(major + 1)->stack.empty())
    step.fault(0, fmt::format("has no whole dim {} right of {}", op.minor, op.major));
  *major = Dim{op.dim, major->size * (major + 1)->size, major->stack};
  t.dims.erase(major + 1);
  return {t};
}

namespace {

// The one dim of packed values with these dims.
Dim packed(const StepTyping& step, const std::vector<Dim>& dims, int64_t size) {
  Dim z{.name = "Z", .size = size};
  int64_t elements = 1;
  for (const Dim& dim : dims) {
    if (dim.jagged()) step.fault(0, "has rows, whose number is not known beforehand: only other values are packed");
    elements *= local_size(step.mesh, dim);
    for (const Mark& mark : dim.stack) {
      if (!mark.is_atom()) step.fault(0, fmt::format("is a chunk along {}: pack before the split", dim.name));
      z.size *= step.mesh.size(mark.atom);
      z.stack.push_back(mark);
    }
  }
  if (size < elements)
    step.fault(0, fmt::format("holds {} elements on a rank, more than the {} of the pack", elements, size));
  return z;
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const Pack& op) {
  expect_operands(step, 1, 1);
  return {with_dims(step.type(0), {packed(step, step.type(0).dims, op.size)}, step.type(0).holds)};
}

std::vector<Type> infer_op(const StepTyping& step, const Unpack& op) {
  expect_operands(step, 1, 1);
  const Type& t = step.type(0);
  if (t.dims.size() != 1 || t.dims[0].name != "Z") step.fault(0, "is not packed");
  const Dim z = packed(step, op.dims, local_size(step.mesh, t.dims[0]));
  if (t.dims[0] != z)
    step.fault(0, fmt::format("is {}, {} packs as {}: gather or join it first", to_string(step.mesh, t),
                              to_string(step.mesh, op.dims), to_string(step.mesh, std::vector<Dim>{z})));
  return {with_dims(t, op.dims, t.holds)};
}

std::vector<Type> infer_op(const StepTyping& step, const Activate& op) {
  expect_operands(step, 1, 1);
  refuse_partial(step, 0);
  return {op.glu ? without_gate_pair(step, step.type(0)) : step.type(0)};
}

std::vector<Type> infer_op(const StepTyping& step, const ActivateGrad& op) {
  expect_operands(step, 2, 2);
  refuse_partial(step, 0);
  const Type result = op.glu ? without_gate_pair(step, step.type(0)) : step.type(0);
  if (step.type(1).dims != result.dims)
    step.fault(1, fmt::format("is {}, needed is {}", to_string(step.mesh, step.type(1)), to_string(step.mesh, result)));
  const Type& x = step.type(0);
  return {with_dims(x, x.dims, holds(step, {.in = step.in, .out = x.dim_names()}))};
}

std::vector<Type> infer_op(const StepTyping& step, const RmsNorm&) {
  expect_operands(step, 2, 2);
  refuse_partial(step, 0);
  expect_whole(step, 0, "D");
  expect_same_dim(step, step.in[0], step.in[1], "D");
  const Type& x = step.type(0);
  return {with_dims(x, x.dims, holds(step, {.in = step.in, .out = x.dim_names()}))};
}

std::vector<Type> infer_op(const StepTyping& step, const RmsNormGrad&) {
  expect_operands(step, 3, 3);
  refuse_partial(step, 0);
  const Operand &x = step.in[0], &gain = step.in[1], &dy = step.in[2];
  if (dy.type->dims != x.type->dims)
    step.fault(2, fmt::format("is {}, needed are the dims of %{}", to_string(step.mesh, *dy.type), x.name));
  return {with_dims(*x.type, x.type->dims, holds(step, {.in = step.in, .out = x.type->dim_names()})),
          with_dims(*gain.type, gain.type->dims, holds(step, {.in = {x, dy}, .out = {"D"}}))};
}

std::vector<Type> infer_op(const StepTyping& step, const Rope&) {
  expect_operands(step, 1, 1);
  expect_whole(step, 0, "S");
  expect_whole(step, 0, "A");
  return {step.type(0)};
}

namespace {

std::string head_label(const std::string& dim) { return dim == "J" ? "H" : dim; }

void check_attention(const StepTyping& step) {
  for (size_t i = 0; i < 3; ++i) {
    refuse_partial(step, i);
    expect_whole(step, i, "S");
    expect_whole(step, i, "A");
  }
  for (size_t i = 1; i < 3; ++i) {
    for (const char* dim : {"B", "S", "A"}) expect_same_dim(step, step.in[0], step.in[i], dim);
    const Dim *heads = step.type(0).find("H"), *kv = step.type(i).find("J");
    if (!heads || !kv || heads->size % kv->size) step.fault(i, "needs dims [B, S, J, A] with J dividing the heads H");
    for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom)
      if (heads->holds(atom) != kv->holds(atom))
        step.fault(i, atom, "query heads and key/value heads are not split alike: slice both or neither");
  }
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const Attention&) {
  expect_operands(step, 3, 3);
  check_attention(step);
  const Type& q = step.type(0);
  const Type o = with_dims(q, q.dims, holds(step, {.in = step.in, .out = q.dim_names(), .label = head_label}));
  Type lse = side(o);
  lse.dims = {*o.find("B"), *o.find("H"), *o.find("S")};
  return {o, lse};
}

std::vector<Type> infer_op(const StepTyping& step, const AttentionGrad&) {
  expect_operands(step, 6, 6);
  check_attention(step);
  if (step.type(5).dims != step.type(0).dims) step.fault(5, "is not shaped like the queries");
  std::vector<Type> out;
  for (size_t i = 0; i < 3; ++i) {
    const Type& t = step.type(i);
    const std::vector<Operand> in = {step.in[0], step.in[1], step.in[2], step.in[5]};
    out.push_back(with_dims(t, t.dims, holds(step, {.in = in, .out = t.dim_names(), .label = head_label})));
  }
  return out;
}

std::vector<Type> infer_op(const StepTyping& step, const Embed&) {
  expect_operands(step, 2, 2);
  const Type &table = step.type(0), &ids = step.type(1);
  if (!table.has("V") || !ids.has("T")) step.fault(table.has("V") ? 1 : 0, "embed takes a table [V, D] and ids [T]");
  std::vector<Dim> dims = ids.dims;
  dims.insert(dims.end(), table.dims.begin() + 1, table.dims.end());
  return {with_dims(table, dims, holds(step, {.in = step.in, .out = names(dims)}))};
}

std::vector<Type> infer_op(const StepTyping& step, const EmbedGrad& op) {
  expect_operands(step, 2, 2);
  expect_same_dim(step, step.in[1], step.in[0], "T");
  const Type hot = one_hot(step.type(1), op.vocab);
  std::vector<Dim> dims = {op.vocab, step.type(0).dims.back()};
  return {
      with_dims(step.type(0), dims, holds(step, {.in = {step.in[0], {step.in[1].name, &hot}}, .out = names(dims)}))};
}

std::vector<Type> infer_op(const StepTyping& step, const RowMax&) {
  expect_operands(step, 1, 1);
  refuse_partial(step, 0);
  Type t = side(step.type(0));
  expect_dims(step, 0, 1);
  const Dim vocab = t.dims.back();
  t.dims.pop_back();
  for (const Mark& mark : vocab.stack)
    if (mark.is_atom()) t.dims.push_back({fmt::format("m{}", mark.atom), step.mesh.size(mark.atom), {mark}});
  return {t};
}

namespace {

void check_vocab_loss(const StepTyping& step) {
  refuse_partial(step, 0);
  for (size_t i : {1, 2}) expect_same_dim(step, step.in[0], step.in[i], "T");
  for (const Dim& dim : step.type(1).dims)
    if (dim.name != "T") expect_whole(step, 1, dim.name);
}

Type reduced(const StepTyping& step) {
  const Type &z = step.type(0), &target = step.type(2);
  return with_dims(z, target.dims, holds(step, {.in = {step.in[0], step.in[2]}, .out = target.dim_names()}));
}

}  // namespace

std::vector<Type> infer_op(const StepTyping& step, const ExpSumTarget&) {
  expect_operands(step, 3, 3);
  check_vocab_loss(step);
  return {reduced(step), reduced(step)};
}

std::vector<Type> infer_op(const StepTyping& step, const ExpSumTargetGrad&) {
  expect_operands(step, 5, 5);
  check_vocab_loss(step);
  const Type& z = step.type(0);
  if (step.type(3) != step.type(4))
    step.fault(4, fmt::format("is {}, %{} is {}", to_string(step.mesh, step.type(4)), step.in[3].name,
                              to_string(step.mesh, step.type(3))));
  expect_same_dim(step, step.in[0], step.in[3], "T");
  return {with_dims(z, z.dims, holds(step, {.in = {step.in[0], step.in[3]}, .out = z.dim_names()}))};
}

std::vector<Type> infer_op(const StepTyping& step, const Nll&) {
  expect_operands(step, 3, 3);
  refuse_partial(step, 0);
  refuse_partial(step, 1);
  if (step.type(0) != step.type(1))
    step.fault(1, fmt::format("is {}, %{} is {}", to_string(step.mesh, step.type(1)), step.in[0].name,
                              to_string(step.mesh, step.type(0))));
  expect_same_dim(step, step.in[0], step.in[2], "T");
  return {with_dims(step.type(0), {}, holds(step, {.in = {step.in[0], step.in[2]}, .out = {}}))};
}

std::vector<Type> infer_op(const StepTyping& step, const NllGrad&) {
  expect_operands(step, 3, 3);
  refuse_partial(step, 0);
  expect_same_dim(step, step.in[0], step.in[1], "T");
  const Type& s = step.type(0);
  const Type ds = with_dims(s, s.dims, holds(step, {.in = step.in, .out = s.dim_names()}));
  return {ds, ds};
}

}  // namespace plait
