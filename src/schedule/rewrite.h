// Rewrites: a schedule in, a schedule that computes the same out. drop_duplicates and merge_moves go before
// `differentiate`, repeat_section after it, all of them before `lower`. All but drop_unused check the list:
// TypeFault.
#pragma once
#include <string>

#include "schedule/schedule.h"

namespace plait {

// DTD: every exchange of a value that is I over the atoms of `axis` becomes slice, exchange, join. Rows are sliced
// along the group dim of each atom, padded buffers along their slots C. drop_duplicates(ted) = dtd.
Schedule drop_duplicates(const Schedule& schedule, Axis axis);

// Composes neighbouring moves where one move, or one fused message, types as the same thing: join then enter = gather,
// leave then slice = scatter, exchange and gather = one all_to_all, join then slice = nothing.
Schedule merge_moves(const Schedule& schedule);

// Steps [first, last) become the body that runs once for each of `times` micro-batches; every value that leaves the
// section leaves as its sum over the repeats. With times = 1 the schedule itself.
Schedule repeat_section(const Schedule& schedule, Repeat section);

// Drops the steps of which no output, no in-place update and no later step reads a result.
Schedule drop_unused(const Schedule& schedule);

// The expression that a value stands for, independent of names and of the order of independent steps.
std::string fingerprint(const Schedule& schedule, ValueId value);

}  // namespace plait
