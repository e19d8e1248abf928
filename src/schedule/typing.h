// The types of a step's results from those of its operands, or a one-line TypeFault. `check` applies it to a whole
// list.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "schedule/op.h"

namespace plait {

// A leaf or a step of a list, by its index; its outputs or its repeated section.
struct ListPart {
  enum class What { leaf, step, outputs, repeat } what = What::step;
  int index = 0;
};

// A schedule that does not type: "step 12 gather -> %x: %h over tp.esp: what is wrong: what would fix it".
struct TypeFault : InputError {
  using InputError::InputError;
  ListPart part = {};  // where `check` found it
};

struct Operand {
  std::string name;
  const Type* type;
};

// One step as the typing rules see it.
struct StepTyping {
  const Mesh& mesh;
  const Op& op;
  std::vector<Operand> in;
  std::string where;  // "step 12 gather -> %x"
  Precision precision = Precision::one;

  const Type& type(size_t operand) const { return *in[operand].type; }
  [[noreturn]] void fault(const std::string& value, const std::string& why) const;
  [[noreturn]] void fault(const std::string& value, Atom atom, const std::string& why) const;
  [[noreturn]] void fault(size_t operand, const std::string& why) const { fault(in[operand].name, why); }
  [[noreturn]] void fault(size_t operand, Atom atom, const std::string& why) const {
    fault(in[operand].name, atom, why);
  }
};

std::vector<Type> infer(const StepTyping& step);

// The one rule of every multilinear op; per atom, over operands that have a gradient or are not the same everywhere:
// all I -> I, and I beside anything else is a fault; one P and the rest R -> P; a sharded label: S where the operand
// has it, R where it has not -> S if the result has it, else P; all R -> R. `label` maps dim names that mean the same.
struct Multilinear {
  std::vector<Operand> in;
  std::vector<std::string> out;
  std::string (*label)(const std::string&) = [](const std::string& dim) { return dim; };
};
std::vector<Hold> holds(const StepTyping& step, const Multilinear& rule);

// Whether a move takes rows from cell to cell: their message is cut by tables, which `lower` adds.
bool moves_cells(const Move& move, const Type& value);

std::string group_dim(Atom atom);                             // "g2": the digit dim of an atom
std::string token_label(const std::string& dim);              // g2 and W are T
void refuse_partial(const StepTyping& step, size_t operand);  // a non-linear op of a partial sum
void expect_operands(const StepTyping& step, size_t low, size_t high);
const Dim& expect_dim(const StepTyping& step, size_t operand, std::string_view dim);
void expect_dims(const StepTyping& step, size_t operand, size_t least);
void expect_same_dim(const StepTyping& step, const Operand& a, const Operand& b, const std::string& dim);

// Whether a bias of these dims, [E, F], is that of the expert of each row of x [.., E, .., F].
bool bias_of_experts(const Type& x, const std::vector<std::string>& of_bias);

// The dims of the buffer of a routing whose tokens have this type (places or idx), without what follows the rows; of
// one chunk, where the routing has several.
std::vector<Dim> row_dims(const StepTyping& step, const Routing& routing, const Type& places);
// Its table: of all chunks (kWhole), or of one.
constexpr int kWhole = -1;
std::vector<Dim> table_dims(const Mesh& mesh, const Routing& routing, const Type& tokens, int chunk);

}  // namespace plait
