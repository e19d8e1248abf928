// The training run: every rank walks the same loop; rank 0 reports, writes metrics, curve and checkpoints under
// log.dir.
#pragma once
#include <functional>
#include <optional>

#include "plan/simulate.h"
#include "train/explain.h"
#include "train/memory.h"
#include "train/report.h"
#include "train/resume.h"
#include "wire/ranks.h"

namespace plait {

// What the app shows; called on rank 0's thread. Anything may be empty.
struct RunObserver {
  std::function<void(const std::string& folder, int64_t step)> resumed;
  std::function<void(const StepReport&)> step;
  std::function<void(const std::string& folder)> saved;
  std::function<void(int64_t done, int64_t all)> saving;  // bytes; every few seconds of a long save
  // The last step of all ranks, over time, once all have ended; steps are recorded where this is set.
  std::function<void(const Schedule&, const Timeline&)> timeline;
  std::function<void(const Explanation&)> explanation;  // at the end: seconds of steps, predicted and measured
  std::function<void(const MemoryComparison&)> memory;  // once, after the first step; told and measured
  Note note;                                            // what a person should know: found, kept, cut off, put off
};

// Ends before its last step when the process was told to (stop::requested, at one rank) or train.max_time comes near:
// all ranks after the same step, with a checkpoint. A save that the disk refuses is put off, but for the last one.
// Throws InputError for a config that does not fit memory.limit, before anything is allocated; for a folder that
// another run holds, before anything is written; and for a checkpoint in log.dir that does not fit the config.
// stop::Stopped when it was told to end before the first step.
RunReport train(const Planned& run, const data::Corpus& corpus, const RunObserver& observer,
                GoOn go_on = GoOn::as_it_was);

}  // namespace plait
