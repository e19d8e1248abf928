#include "schedule/builder.h"

#include <algorithm>

#include "base/errors.h"
#include "schedule/typing.h"

namespace plait {
namespace {

Legs make_legs(const Atoms& atoms, const std::function<Leg(Atom)>& leg) {
  Legs all;
  for (Atom a : atoms) all.push_back(leg(a));
  return all;
}

Place shard(const DimOf& dim, Atom a) { return {Hold::S, dim.of(a)}; }

}  // namespace

Legs legs(const Atoms& atoms, Place from, Place to) {
  return make_legs(atoms, [&](Atom a) { return Leg{a, from, to}; });
}
Legs enter_legs(const Atoms& atoms) { return legs(atoms, {Hold::I}, {Hold::R}); }
Legs leave_legs(const Atoms& atoms) { return legs(atoms, {Hold::P}, {Hold::I}); }
Legs gather_legs(const Atoms& atoms, const DimOf& dim) {
  return make_legs(atoms, [&](Atom a) { return Leg{a, shard(dim, a), {Hold::R}}; });
}
Legs slice_legs(const Atoms& atoms, const DimOf& dim) {
  return make_legs(atoms, [&](Atom a) { return Leg{a, {Hold::I}, shard(dim, a)}; });
}
Legs exchange_legs(const Atoms& atoms, const DimOf& from, const DimOf& to) {
  return make_legs(atoms, [&](Atom a) { return Leg{a, shard(from, a), shard(to, a)}; });
}

std::vector<Mark> stack_of(const Atoms& atoms) {
  std::vector<Mark> stack;
  for (Atom a : atoms) stack.push_back({.atom = a});
  return stack;
}

Atoms operator+(const Atoms& a, const Atoms& b) {
  Atoms all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Builder::Builder(const Mesh& mesh, Precision precision) {
  schedule_.mesh = mesh;
  schedule_.precision = precision;
}

Builder::Builder(Schedule schedule) : schedule_(std::move(schedule)), types_(check(schedule_)) {
  for (const std::string& name : schedule_.names) taken_[name] = 1;
}

std::string Builder::fresh(const std::string& base) {
  int& count = taken_[base];
  if (count == 0) {
    count = 1;
    return base;
  }
  std::string name;
  do name = fmt::format("{}_{}", base, ++count);
  while (taken_.count(name));
  taken_[name] = 1;
  return name;
}

ValueId Builder::leaf(LeafKind kind, const std::string& name, Type type) {
  expects(!taken_.count(name), "a leaf's name is unique");
  const ValueId v = schedule_.add_value(fresh(name));
  types_.push_back(type);
  schedule_.leaves.push_back({v, kind, std::move(type)});
  return v;
}

ValueId Builder::leaf(LeafKind kind, const std::string& name, std::vector<Dim> dims) {
  Type type{.dims = std::move(dims), .holds = std::vector<Hold>(mesh().num_atoms(), Hold::I)};
  for (const Dim& dim : type.dims)
    for (const Mark& mark : dim.stack) type.holds[mark.atom] = Hold::S;
  type.grad = kind == LeafKind::parameter;
  if (schedule_.precision == Precision::mixed) type.dtype = Dtype::full;
  if (kind == LeafKind::scalar) type.dtype = Dtype::wide;
  return leaf(kind, name, std::move(type));
}

std::vector<ValueId> Builder::add_all(Op op, std::vector<ValueId> in, const std::string& name) {
  Step step{std::move(op), std::move(in), {}};
  const std::string base = name.empty() ? schedule_.title(step) : name;
  return add_named(std::move(step.op), std::move(step.in), {base});
}

std::vector<ValueId> Builder::add_named(Op op, std::vector<ValueId> in, const std::vector<std::string>& names) {
  Step step{std::move(op), std::move(in), {}};
  step.out = {schedule_.add_value(fresh(scope_ + names.front()))};
  const std::vector<Type> out = infer_step(schedule_, types_, static_cast<int>(schedule_.steps.size()), step);
  for (size_t i = 1; i < out.size(); ++i)
    step.out.push_back(schedule_.add_value(fresh(scope_ + names[std::min(i, names.size() - 1)])));
  types_.insert(types_.end(), out.begin(), out.end());
  schedule_.steps.push_back(step);
  return step.out;
}

ValueId Builder::add(Op op, std::vector<ValueId> in, const std::string& name) {
  return add_all(std::move(op), std::move(in), name).front();
}

ValueId Builder::move(ValueId x, Legs legs) { return move_all({x}, std::move(legs)).front(); }

std::vector<ValueId> Builder::move_all(std::vector<ValueId> xs, Legs legs) {
  if (legs.empty()) return xs;
  return add_all(Move{std::move(legs)}, std::move(xs));
}

ValueId Builder::enter(ValueId x, const Atoms& atoms) { return move(x, enter_legs(atoms)); }
ValueId Builder::leave(ValueId x, const Atoms& atoms) { return move(x, leave_legs(atoms)); }
ValueId Builder::gather(ValueId x, const Atoms& atoms, const DimOf& dim) { return move(x, gather_legs(atoms, dim)); }
ValueId Builder::scatter(ValueId x, const Atoms& atoms, const DimOf& dim) {
  return move(x, transpose(gather_legs(atoms, dim)));
}
ValueId Builder::slice(ValueId x, const Atoms& atoms, const DimOf& dim) { return move(x, slice_legs(atoms, dim)); }
ValueId Builder::join(ValueId x, const Atoms& atoms, const DimOf& dim) {
  return move(x, transpose(slice_legs(atoms, dim)));
}
ValueId Builder::exchange(ValueId x, const Atoms& atoms, const DimOf& from, const DimOf& to) {
  return move(x, exchange_legs(atoms, from, to));
}

}  // namespace plait
