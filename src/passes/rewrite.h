// Rewrites: a schedule in, a schedule that computes the same out. drop_duplicates, merge_moves and hoist go before
// `differentiate`, repeat_section and split_messages after it, the others on either side, all of them before `lower`.
// All but drop_unused check the list: TypeFault.
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

// The other way: a fused message becomes exchange then gather, or scatter then exchange; where the order of a dim's
// stack forbids that, it stays fused.
Schedule unfuse_moves(const Schedule& schedule);

// Hierarchical exchange: one over several atoms becomes one over each, in an order that its stacks allow; where none
// does, it stays whole. Every row then travels once a level, in fewer and larger messages.
Schedule one_atom_at_a_time(const Schedule& schedule);

// slice(f(x)) = f(slice(x)) and f(join(x)) = join(f(x)) over the atoms of an axis, for tokens and ragged rows, while f
// works token by token. A gate whose groups the slice would cut works on all tokens, and its results are sliced.
// hoist(s2) = s1 where no gate group is cut; else it joins tokens instead of rows.
Schedule hoist(const Schedule& schedule, Axis axis);

// cast(leave(x)) = leave(cast(x)), and so for scatter and sum: what is read in full precision is added up in it.
Schedule sum_in_full(const Schedule& schedule);

// Steps [first, last), all by default: a move of several values becomes several moves of at most so many elements (or
// of one value), in the order in which the list makes them: a bucket of gradients can travel before the last gradient
// is there.
Schedule split_messages(const Schedule& schedule, int64_t elements, int first = 0, int last = -1);

// Steps [first, last): the messages of `together` neighbouring chunks of a layer, each the nth of its chunk, become one
// message of several values; their products stay apart. Steps that the message needs move up in front of it.
struct ChunkSection {
  int first = 0, last = 0, together = 1;
};
Schedule join_chunks(const Schedule& schedule, const ChunkSection& section);

// Steps [first, last) become the body that runs once for each of `times` micro-batches; every value that leaves the
// section leaves as its sum over the repeats. With times = 1 the schedule itself.
Schedule repeat_section(const Schedule& schedule, Repeat section);

// Drops the steps of which no output, no in-place update and no later step reads a result.
Schedule drop_unused(const Schedule& schedule);

// The expression that a value stands for, independent of names and of the order of independent steps.
std::string fingerprint(const Schedule& schedule, ValueId value);

}  // namespace plait
