// A schedule as text: what `plait show` prints, what `parse` reads back to the same list.
//   mesh ranks=4 tp=2 esp=2 ep=2
//   leaf parameter %w : real [D=16, F=32/tp.esp]
//   %h = einsum(%x, %w) out=T,F : real [T=64/dp.ep, F=32/tp.esp]
//   %y = leave(%h) tp.esp:P>I : real [T=64/dp.ep, D=16]
//   outputs %loss
// A step's types (after ':') are what check infers, and `of %x` says whose cotangent a result is; parse checks both.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace plait {

// Throws TypeFault: what does not type has no types to print.
std::string print(const Schedule& schedule);
// An op with its fields, "einsum out=T,F"; a move by its kinds and legs.
std::string print_op(const Mesh& mesh, const Op& op);
// The types of a list of one precision are printed without what only several precisions tell apart: wide as real.
Type as_printed(Type type, Precision precision);
std::string print_step(const Schedule& schedule, const Types& types, int index);

// What a list may name: gates by their routes, ops from outside.
struct Known {
  const Gates& gates = built_in_gates();
  std::span<const ExternalOp* const> ops = {};
};
// Throws InputError "schedule text line 7: ..." on text that is not a schedule, TypeFault on one that does not type.
Schedule parse_schedule(std::string_view text, const Known& known = {});

}  // namespace plait
