// The memory of a training step on the ranks of a run: told from the config alone, and compared with a step that ran.
#pragma once
#include <optional>

#include "launch/limits.h"
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

// The ranks of a run that share this node, and what its system lets them have.
struct MemoryHere {
  launch::RanksHere ranks;
  std::vector<launch::Limit> limits;
};

// Whether a run fits memory.limit and this node. What is told of a rank knows nothing of the program itself, of
// evaluations, checkpoints and text, so a run that takes nearly all is tight. InputError where not even the list of its
// steps can be written.
struct MemoryFit {
  enum class Is { fine, tight, beyond_here, beyond_limit } is = Is::fine;
  std::string line = {};  // what is needed, what is left by which file, what would lower it; empty where it is fine
};
MemoryFit memory_fit(const Planned& run, const MemoryHere& here);

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
