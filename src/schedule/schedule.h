// A training step as data: leaves, then steps in single-assignment form. `check`, `differentiate`, the rewrites,
// `print` and the executor are functions of this list.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedule/op.h"

namespace plait {

using ValueId = int;

struct Step {
  Op op;
  std::vector<ValueId> in, out;
  bool operator==(const Step&) const = default;
};

// parameter: trained, kept. state: kept (moments). data: fed each micro-batch. scalar: fed each step (lr, step).
// seed: the cotangent of the loss. sum: zeroed at the start of a step, added to in place by a repeated section.
enum class LeafKind { parameter, state, data, scalar, seed, sum };
std::string_view name(LeafKind kind);

struct Leaf {
  ValueId value = 0;
  LeafKind kind = LeafKind::data;
  Type type;
  bool operator==(const Leaf&) const = default;
};

// Steps [first, last) run `times` times, once for each micro-batch; what they make leaves only through Accumulate.
struct Repeat {
  int first = 0, last = 0, times = 1;
  bool operator==(const Repeat&) const = default;
};

struct Schedule {
  Mesh mesh;
  Precision precision = Precision::one;
  std::vector<std::string> names;  // by ValueId
  std::vector<Leaf> leaves;
  std::vector<Step> steps;
  std::vector<ValueId> outputs;             // held I everywhere
  std::map<ValueId, ValueId> cotangent_of;  // cotangent -> its value: `check` compares their types
  std::optional<Repeat> repeat;

  ValueId add_value(std::string name);        // a new id; REQUIRES a name that no value has (Builder makes one)
  ValueId find(std::string_view name) const;  // -1 without
  const Leaf* leaf(ValueId value) const;
  std::string title(const Step& step) const;  // a move by its kinds, else the op's name
};

// Types of all values, or a one-line TypeFault: every step types; each value is made once, before its readers; nobody
// reads a value after it was updated in place; outputs are I; every cotangent has the dual type of its value; a
// repeated section leaks nothing but sums.
Types check(const Schedule& schedule);

// Results that a step makes by updating an operand.
std::vector<Sharing> in_place(const Step& step);

// The typing of one step of a list, for passes that try a step before they add it.
std::vector<Type> infer_step(const Schedule& schedule, const Types& types, int index, const Step& step);

// For each value the index of the step that makes it; -1 for leaves.
std::vector<int> makers(const Schedule& schedule);
// For each value the last step that makes or reads it; -1 for leaves that nobody reads.
std::vector<int> last_uses(const Schedule& schedule);
// For each value how many operands read it; being an output counts as one more.
std::vector<int> readers(const Schedule& schedule);

}  // namespace plait
