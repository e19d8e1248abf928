// The training run: every rank walks the same loop; rank 0 reports, writes metrics, curve and checkpoints under
// log.dir.
#pragma once
#include <atomic>
#include <functional>
#include <optional>

#include "plan/simulate.h"
#include "train/explain.h"
#include "train/memory.h"
#include "train/trainer.h"
#include "wire/ranks.h"

namespace plait {

struct StepReport {
  int64_t step = 0, steps = 0;  // step counts from 1
  StepResult result;
  double lr = 0, ms = 0, tokens_per_s = 0, gflops = 0, seconds_left = 0;
  std::optional<double> val_loss;
};

struct RunReport {
  int64_t first_step = 0, last_step = 0;
  bool interrupted = false;
  double seconds = 0, tokens_per_s = 0;
  std::optional<double> val_loss;
  std::string checkpoint;  // the folder written last
};

// What the app shows; called on rank 0's thread. Anything may be empty.
struct RunObserver {
  std::function<void(int64_t step)> resumed;
  std::function<void(const StepReport&)> step;
  std::function<void(const std::string& folder)> saved;
  // The last step of all ranks, over time, once all have ended; steps are recorded where this is set.
  std::function<void(const Schedule&, const Timeline&)> timeline;
  std::function<void(const Explanation&)> explanation;  // at the end: seconds of steps, predicted and measured
  std::function<void(const MemoryComparison&)> memory;  // once, after the first step; told and measured
};

// `stop` set (Ctrl-C): all ranks end after the step they are in, with a checkpoint. Throws InputError for a config that
// does not fit memory.limit, before anything is allocated, and for a checkpoint in log.dir that does not fit the
// config.
RunReport train(const Planned& run, const data::Corpus& corpus, const RunObserver& observer,
                const std::atomic<bool>& stop);

}  // namespace plait
