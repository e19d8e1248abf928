// The bytes that a rank needs for a training step, told before it runs: from the list, its types and how long values
// live. The executor counts the same classes, so that the two can be compared.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "plan/cost.h"
#include "plan/rows.h"
#include "schedule/schedule.h"
#include "schedule/wire_bytes.h"

namespace plait {

// parameters: as they are stored. optimizer: master weights, moments, the gates' biases. gradients: of parameters,
// from where they are made to the update, and their sums. inputs: what is fed, and scalars. kept: activations that
// backward reads. transient: other activations and their cotangents. scratch: buffers of a message or a kernel, only
// while it runs.
enum class MemoryClass { parameters, optimizer, gradients, inputs, kept, transient, scratch };
inline constexpr int kMemoryClasses = 7;
std::string_view name(MemoryClass what);

// What a value is counted as; those of experts (weights, rows) apart.
struct MemoryTag {
  MemoryClass what = MemoryClass::transient;
  bool expert = false;
  bool operator==(const MemoryTag&) const = default;
};

struct MemoryUse {
  std::array<int64_t, kMemoryClasses> dense = {}, expert = {};  // bytes

  int64_t& at(MemoryTag tag) { return (tag.expert ? expert : dense)[static_cast<size_t>(tag.what)]; }
  int64_t at(MemoryTag tag) const { return (tag.expert ? expert : dense)[static_cast<size_t>(tag.what)]; }
  int64_t of(MemoryClass what) const { return dense[static_cast<size_t>(what)] + expert[static_cast<size_t>(what)]; }
  int64_t states() const;  // parameters and optimizer
  int64_t total() const;
  bool operator==(const MemoryUse&) const = default;
};
MemoryUse operator+(MemoryUse a, const MemoryUse& b);

// By value. Values that share memory have one tag.
std::vector<MemoryTag> memory_tags(const Schedule& schedule, const Types& types);

struct MemoryQuestion {
  int rank = 0;
  Item item = {};
  std::vector<ValueId> kept = {};      // not freed after their last reader, besides outputs
  std::vector<RowTables> tables = {};  // by micro-batch; without: rows at their expected number
};

struct MemoryPlan {
  MemoryUse peak;                // when most bytes are in use, by class
  int place = 0;                 // when that is, in the issue order
  int step = 0;                  // the step of the list that then runs
  std::vector<MemoryUse> curve;  // by place in the issue order: in use while that step runs
};

// REQUIRES a lowered schedule. The steps run in the order of the list: with lanes, a message may hold its memory
// longer.
MemoryPlan plan_memory(const Schedule& schedule, const Types& types, const MemoryQuestion& question);

}  // namespace plait
