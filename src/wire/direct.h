// What a member does where the memory of all members lies open to it, between the moment when all have come and the one
// when all are through: the same for threads and for processes of a node.
#pragma once
#include <c10/util/SmallVector.h>

#include "wire/stream.h"

namespace plait::wire {

inline constexpr int kFew = 16;                // members whose parts are told without asking the system for memory
using Slices = c10::SmallVector<Slice, kFew>;  // by member

// Values of all members, as this one reaches them.
struct Members {
  int me = 0;                          // the place of this one
  int size = 0;                        // how many members there are
  std::vector<std::byte*> begin = {};  // of the values: all of the first member, then all of the second, ...

  std::byte* at(int member, size_t value = 0) const {
    return begin[static_cast<size_t>(member) * (begin.size() / static_cast<size_t>(size)) + value];
  }
};

// This member's values become the sums over all members.
void sum_all(const Members& members, const Stream& values);

// Reduce-scatter and all-gather in one pass: the owner of a slice of all values sums it and writes it into every
// member's memory.
void sum_own_slice(const Members& members, const Stream& values);

// What begins at `start` in the value of each member, summed.
void sum_part(const Members& members, int64_t start, const at::Tensor& out);

// parts[m] of the value of each member m, one after another in `out`; not this member's own.
void fetch(const Members& members, std::span<const Slice> parts, const at::Tensor& out);

// Of parts of these sizes that lie one after another in each member's value, the one that is `member`'s.
Slice part_of(int member, std::span<const int64_t> bytes);

}  // namespace plait::wire
