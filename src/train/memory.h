// The memory of a training step on the ranks of a run: told from the config alone, and compared with a step that ran.
#pragma once
#include <optional>

#include "machine/machine_of.h"
#include "plan/memory.h"
#include "run/executor.h"

namespace plait {

// What a rank needs, with rows at their expected number: the same on every rank. Allocates nothing.
MemoryPlan predict_memory(const Planned& run);

// Whether it fits memory.limit.
bool fits_memory(const Planned& run);

// Refuses a config that does not fit memory.limit: InputError, which names the largest term and what would lower it.
void expect_memory(const Planned& run);

// Bytes of an element of real values, and of integers.
Item item_of(at::ScalarType dtype);

// Notes how many rows went where in a step, so that its memory can be told exactly.
class RowWatch {
 public:
  // `executor` keeps the values of `tables`, and must outlive it.
  RowWatch(const Executor& executor, RankContext context) : executor_(executor), context_(context) {}
  static std::vector<ValueId> tables(const Schedule& schedule);

  // Called for every step of the list.
  void note(const Span& span);
  // Every rank calls it, after one step of a run: the tables of the world by micro-batch.
  std::vector<RowTables> whole();

 private:
  const Executor& executor_;
  RankContext context_;
  std::vector<std::map<ValueId, at::Tensor>> parts_;  // by micro-batch
};

// One rank's step; predicted with the rows that it had.
struct MemoryComparison {
  int rank = 0;
  MemoryUse predicted, measured;
  int64_t reserved = 0;                         // bytes that its buffers hold of the system
  int64_t all_predicted = 0, all_measured = 0;  // of all ranks together
};

// The rank that took most. Every rank calls it, after a step that `watch` saw.
MemoryComparison compare_memory(const Executor& executor, RowWatch& watch, RankContext context);

}  // namespace plait
