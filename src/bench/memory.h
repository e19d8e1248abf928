// The memory of training steps three times over: told in advance, counted by the buffers, and resident in the process.
#pragma once
#include "train/memory.h"

namespace plait {

struct MemoryBench {
  MemoryComparison step;  // the first one
  int64_t resident = 0;   // bytes by which the process grew, at most, over all steps
  double ms = 0;          // of the last step
};

// Random tokens. The ranks are threads of this process, which should have done nothing large before.
MemoryBench bench_memory(const Planned& run, int64_t steps);

}  // namespace plait
