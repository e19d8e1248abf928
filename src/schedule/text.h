// A schedule as text: what `plait show` prints, what `parse` reads back to the same list.
//   plait schedule 1
//   mesh ranks=4 tp=2 esp=2 ep=2
//   leaf parameter %w : real [D=16, F=32/tp.esp]
//   %h = einsum(%x, %w) out=T,F : real [T=64/dp.ep, F=32/tp.esp]
//   %y = leave(%h) tp.esp:P>I : real [T=64/dp.ep, D=16]
//   outputs %loss
// A step's types (after ':') are what check infers, and `of %x` says whose cotangent a result is; parse checks both.
#pragma once
#include <string>
#include <string_view>

#include "schedule/known.h"
#include "schedule/schedule.h"

namespace plait {

inline constexpr int kVersion = 1;  // of the format
inline constexpr std::string_view kVersionLine = "plait schedule 1";

// Throws TypeFault: what does not type has no types to print.
std::string print(const Schedule& schedule);
// An op with its fields, "einsum out=T,F"; a move by its kinds and legs.
std::string print_op(const Mesh& mesh, const Op& op);
// The types of a list of one precision are printed without what only several precisions tell apart: wide as real.
Type as_printed(Type type, Precision precision);
std::string print_step(const Schedule& schedule, const Types& types, int index);

// InputError "FILE:7: read .., expected .." on text that is not a schedule; on one that does not type, TypeFault with
// the place in front: "FILE:7: step 2 gather -> %x: ..".
Schedule parse_schedule(std::string_view text, std::string_view file = "schedule text", const Known& known = {});
Schedule read_schedule(const std::string& path);
// What print_op writes.
Op parse_op(const Mesh& mesh, std::string_view text);

// Every op with its fields, and what may stand behind each, one op a line, in the order of their names; in [] what only
// some choices have. Made of the ops themselves.
std::string op_grammar();

}  // namespace plait
