// The machine that a run is planned for, and what schedule.moe = "auto" becomes on it.
#pragma once
#include "machine/machine_of.h"
#include "tune/trials.h"

namespace plait {

// The config with rank 0's machine. Every rank of the group calls it; only rank 0 needs the file.
Planned with_machine_of_first(wire::Group& everyone, const Config& config);

struct ChosenSchedule {
  Planned run;  // its config resolved and valid, of one family
  // The first one was taken; then those that were tried, by what was measured, and the others as they were predicted.
  // Empty where the config names a family.
  std::vector<Choice> choices;
  enum class By { prediction, trial, checkpoint } by = By::prediction;
};

// A function of the config and its machine alone, so that all ranks choose the same. Only what computes the same as
// the reference family does with this config stands to choose: same gate groups, capacity and auxiliary losses.
ChosenSchedule choose_schedule(const Planned& run, const LoadProfile& load = {});

// The same for all ranks of the config, whose processes may have read different files: what a verb does first.
ChosenSchedule agreed_schedule(const Config& config);

// What a run does beside: the ranks try the favourites of what was agreed on for this config (schedule.trials of them,
// those that fit memory.limit) and take what is fastest. A run that goes on from a checkpoint keeps the schedule that
// wrote it, so that it goes on in the same bits.
ChosenSchedule tried_schedule(const Config& config, const ChosenSchedule& agreed, const TellTrial& tell = {});

}  // namespace plait
