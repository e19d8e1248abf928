// Moves: what each leg needs, which legs fuse in one message, and the stack rule.
#include <algorithm>
#include <set>

#include "schedule/typing.h"
#include "schedule/typing_rules.h"

namespace plait {
namespace {

bool fusible(const std::vector<MoveKind>& kinds) {
  const std::set<MoveKind> set(kinds.begin(), kinds.end());
  const auto within = [&](std::set<MoveKind> all) {
    return std::includes(all.begin(), all.end(), set.begin(), set.end());
  };
  return set.size() <= 1 || within({MoveKind::exchange, MoveKind::gather}) ||
         within({MoveKind::exchange, MoveKind::scatter});
}

// Cells of rows travel by their counts, columns by equal chunks: one message carries one or the other.
void expect_cells_or_columns(const StepTyping& step, const Legs& legs, size_t operand) {
  const Type& t = step.type(operand);
  if (t.jagged_index() < 0) return;
  std::string cells, columns;
  for (const Leg& leg : legs) {
    for (const Place& p : {leg.from, leg.to}) {
      if (p.hold != Hold::S) continue;
      const bool is_cell = t.find(p.dim) - t.dims.data() < t.jagged_index();
      (is_cell ? cells : columns) = p.dim;
      if (!cells.empty() && !columns.empty())
        step.fault(operand, leg.atom,
                   fmt::format("one message moves cells of rows ({}) and their columns ({}): make two moves of it",
                               cells, columns));
    }
  }
}

void check_legs(const StepTyping& step, const Legs& legs, size_t operand) {
  const Type& t = step.type(operand);
  if (legs.empty()) step.fault(operand, "the move has no legs");
  std::set<Atom> seen;
  for (const Leg& leg : legs) {
    const MoveKind* kind = find_kind(leg);
    if (!seen.insert(leg.atom).second) step.fault(operand, leg.atom, "has two legs: one move takes each atom once");
    if (!kind)
      step.fault(operand, leg.atom, fmt::format("no move takes {} to {}", to_string(leg.from), to_string(leg.to)));
    if (t.place(leg.atom) != leg.from)
      step.fault(
          operand, leg.atom,
          fmt::format("{} needs {}, the value is {}", name(*kind), to_string(leg.from), to_string(t.place(leg.atom))));
    for (const Place& p : {leg.from, leg.to}) {
      const Dim* dim = p.hold == Hold::S ? t.find(p.dim) : nullptr;
      if (p.hold == Hold::S && !dim) step.fault(operand, leg.atom, fmt::format("has no dim {}", p.dim));
      if (dim && dim->jagged())
        step.fault(operand, leg.atom, fmt::format("dim {} has no fixed size: move one of its group dims", p.dim));
    }
  }
  expect_cells_or_columns(step, legs, operand);
  if (!fusible(kinds(legs)))
    step.fault(operand, legs.front().atom, fmt::format("{} cannot travel in one message", title(legs)));
}

void pop(const StepTyping& step, Type& t, const Leg& leg, size_t operand) {
  Dim& dim = *t.find(leg.from.dim);
  if (const Mark& top = dim.stack.back(); top.atom != leg.atom) {
    step.fault(operand, leg.atom,
               fmt::format("dim {} is split further inside, by {}: undo that first", dim.name,
                           top.is_atom() ? step.mesh.name(top.atom) : "the chunks of " + top.split));
  }
  dim.stack.pop_back();
}

void push(const StepTyping& step, Type& t, const Leg& leg, size_t operand) {
  Dim& dim = *t.find(leg.to.dim);
  if (local_size(step.mesh, dim) % step.mesh.size(leg.atom)) {
    step.fault(operand, leg.atom,
               fmt::format("dim {} holds {} entries here, which do not divide by {}", dim.name,
                           local_size(step.mesh, dim), step.mesh.size(leg.atom)));
  }
  dim.stack.push_back({.atom = leg.atom});
}

Type moved(const StepTyping& step, const Legs& legs, size_t operand) {
  check_legs(step, legs, operand);
  Type t = step.type(operand);
  if (t.role == Role::places) step.fault(operand, "holds places in this rank's buffer: count again after the move");
  for (auto leg = legs.rbegin(); leg != legs.rend(); ++leg)
    if (leg->from.hold == Hold::S) pop(step, t, *leg, operand);
  for (const Leg& leg : legs) {
    if (leg.to.hold == Hold::S) push(step, t, leg, operand);
    t.holds[leg.atom] = leg.to.hold;
  }
  return t;
}

void expect_table(const StepTyping& step, size_t operand, const std::vector<Dim>& want, const std::string& routing) {
  const Type& t = step.type(operand);
  if (t.role != Role::table || t.routing != routing || t.dims != want) {
    step.fault(operand, fmt::format("is {}, needed is the table of {} as {}", to_string(step.mesh, t), routing,
                                    to_string(step.mesh, want)));
  }
}

// Operands that are values: all, or the rows in front of two tables for each of them.
size_t num_moved(const StepTyping& step) {
  size_t rows = 0;
  while (rows < step.in.size() && step.type(rows).jagged_index() >= 0) ++rows;
  const bool lowered = rows > 0 && step.in.size() == 3 * rows && step.type(rows).role == Role::table;
  return lowered ? rows : step.in.size();
}

}  // namespace

bool moves_cells(const Move& move, const Type& value) {
  for (int d = 0; d < value.jagged_index(); ++d)
    for (const Leg& leg : move.legs)
      if (leg.from.dim == value.dims[d].name || leg.to.dim == value.dims[d].name) return true;
  return false;
}

std::vector<Type> infer_op(const StepTyping& step, const Move& move) {
  expect_operands(step, 1, 1 << 20);
  const size_t values = num_moved(step);
  std::vector<Type> out;
  for (size_t i = 0; i < values; ++i) {
    const Type& from = step.type(i);
    out.push_back(moved(step, move.legs, i));
    if (moves_cells(move, from) != moves_cells(move, step.type(0)))
      step.fault(i, fmt::format("cells of rows do not travel beside values of fixed size such as %{}",
                                step.in[from.jagged_index() < 0 ? i : 0].name));
    if (values == step.in.size()) continue;
    const std::string& routing = from.dims[from.jagged_index()].table;
    expect_table(step, values + 2 * i, from.prefix(), routing);
    expect_table(step, values + 2 * i + 1, out.back().prefix(), routing);
  }
  return out;
}

}  // namespace plait
