// How much memory the values of a list need at once, by nothing but the list's liveness and the sizes of the values.
#pragma once
#include <vector>

#include "run/executor.h"

namespace plait {

// The most that is alive at one step: its operands, its results, and what later steps read; views count once, bound
// and fed leaves not at all. `executor` has run, kept all values, and has no repeated section; `kept` live to the end,
// as outputs do.
int64_t live_bytes(const Executor& executor, const std::vector<ValueId>& kept);

}  // namespace plait
