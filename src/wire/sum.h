// Element-wise sums of several ranks' memory in the order of the members: ((x0 + x1) + x2) + ..., block by block in
// cache. All wires between CPUs sum so: threads, processes and nodes give the same bits.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace plait::wire {

// Sums `bytes` of every source and writes the result to every target. A target may be one of the sources; other overlap
// is not allowed. Reads a block of all sources before it writes that block.
void sum_into(at::ScalarType type, std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
              int64_t bytes);

}  // namespace plait::wire
