// Writes a schedule step by step, typing each step as it is added: a step that does not type throws TypeFault where it
// is written.
#pragma once
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace plait {

using Atoms = std::vector<Atom>;

// Which dim an atom's leg names: one for all, or one for each atom (group dims).
struct DimOf {
  std::function<std::string(Atom)> of;
  DimOf(const char* dim) : of([dim = std::string(dim)](Atom) { return dim; }) {}
  DimOf(std::string dim) : of([dim](Atom) { return dim; }) {}
  DimOf(std::string (*each)(Atom)) : of(each) {}
  template <class F>
  requires std::is_invocable_r_v<std::string, F, Atom> DimOf(F each) : of(std::move(each)) {}
};

class Builder {
 public:
  explicit Builder(const Mesh& mesh, Precision precision = Precision::one);
  explicit Builder(Schedule schedule);  // goes on with a schedule; throws TypeFault as check does

  const Mesh& mesh() const { return schedule_.mesh; }
  const Type& type(ValueId v) const { return types_[v]; }
  const Schedule& schedule() const { return schedule_; }
  Schedule& schedule() { return schedule_; }
  Schedule take() { return std::move(schedule_); }

  void scope(std::string prefix) { scope_ = std::move(prefix); }  // in front of the names of results

  // REQUIRES a name that no value has.
  ValueId leaf(LeafKind kind, const std::string& name, Type type);
  // A leaf sharded by the stacks of its dims, I elsewhere; a scalar is wide, others `full` in mixed precision;
  // parameters have a gradient, other kinds none.
  ValueId leaf(LeafKind kind, const std::string& name, std::vector<Dim> dims);

  // The first result, and all of them. Named after `name`, or else the op, with a number where that is taken.
  ValueId add(Op op, std::vector<ValueId> in, const std::string& name = "");
  std::vector<ValueId> add_all(Op op, std::vector<ValueId> in, const std::string& name = "");
  // Each result after a name of its own, the last name for any more.
  std::vector<ValueId> add_named(Op op, std::vector<ValueId> in, const std::vector<std::string>& names);

  // Moves over all these atoms; the value itself when there are none.
  ValueId move(ValueId x, Legs legs);
  std::vector<ValueId> move_all(std::vector<ValueId> xs, Legs legs);
  ValueId enter(ValueId x, const Atoms& atoms);
  ValueId leave(ValueId x, const Atoms& atoms);
  ValueId gather(ValueId x, const Atoms& atoms, const DimOf& dim);
  ValueId scatter(ValueId x, const Atoms& atoms, const DimOf& dim);
  ValueId slice(ValueId x, const Atoms& atoms, const DimOf& dim);
  ValueId join(ValueId x, const Atoms& atoms, const DimOf& dim);
  ValueId exchange(ValueId x, const Atoms& atoms, const DimOf& from, const DimOf& to);

 private:
  std::string fresh(const std::string& base);
  Schedule schedule_;
  Types types_;
  std::map<std::string, int> taken_;
  std::string scope_;
};

Legs legs(const Atoms& atoms, Place from, Place to);
Legs enter_legs(const Atoms& atoms);
Legs leave_legs(const Atoms& atoms);
Legs gather_legs(const Atoms& atoms, const DimOf& dim);
Legs slice_legs(const Atoms& atoms, const DimOf& dim);
Legs exchange_legs(const Atoms& atoms, const DimOf& from, const DimOf& to);

std::vector<Mark> stack_of(const Atoms& atoms);  // the marks of these atoms, major to minor
Atoms operator+(const Atoms& a, const Atoms& b);

}  // namespace plait
