// Ops from outside: what a program writes to bring an op of its own, without a change in Plait. A list holds it as an
// `External`; every pass reads its record.
#pragma once
#include <span>

#include "schedule/builder.h"
#include "schedule/typing.h"

namespace plait {

// How ranks compute it (run/external.h), and how the tests' plain loops do (schedule/testing/external.h).
struct ExternalKernel;
namespace oracle {
struct ExternalLoop;
}

// A step of the forward list on the way back: `dy` holds the cotangent of each result, -1 where nothing reached it.
struct StepBack {
  const Step& step;
  const std::vector<ValueId>& dy;
};
// A value that is the cotangent of `of`.
struct CotangentOf {
  ValueId value, of;
};

// REQUIRES that it outlives every list that holds it.
struct ExternalOp {
  Fact<std::string_view> name;              // as it is printed: lower case, and no other op's
  Fact<std::vector<Attribute>> attributes;  // which it has, in the order in which they are printed, with their defaults
  Traits traits;
  Fact<std::vector<Type> (*)(const StepTyping&, const External&)> infer;
  // Writes the backward steps of a step, and tells which values are cotangents of operands. nullptr: it has no
  // gradient.
  Fact<std::vector<CotangentOf> (*)(Builder&, const StepBack&)> differentiate;
  Fact<const ExternalKernel*> kernel;      // nullptr: no rank can run it
  Fact<const oracle::ExternalLoop*> loop;  // nullptr: no test compares it
};

// Of this record, with other values for some of its attributes.
External external(const ExternalOp& record, const std::vector<Attribute>& attributes = {});

// Throws InputError where one is named as another, as an op of Plait or as a move.
void expect_own_names(std::span<const ExternalOp* const> ops);

}  // namespace plait
