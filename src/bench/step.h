// A whole training step beside its matrix products alone, in one run and in turns, and where the step's time goes.
#pragma once
#include "run/profile.h"
#include "train/trainer.h"

namespace plait {

struct StepBench {
  double step_ms = 0, products_ms = 0;  // the fastest of the repeats
  double step_median_ms = 0, products_median_ms = 0;
  double step_cpu_ms = 0, products_cpu_ms = 0;  // least processor time of rank 0's own thread
  double product_flops = 0;                     // of all ranks
  double own_share = 0;                         // of those flops, done by this program's kernels rather than ATen's
  std::vector<KindTime> kinds;                  // longest first
  std::vector<KindTime> steps;                  // the same by step of the schedule
};

// Every rank of the config runs both; random tokens. REQUIRES repeats >= 1.
StepBench bench_step(const Planned& run, int64_t repeats);

}  // namespace plait
