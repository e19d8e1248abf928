// Before a run: every rank must have the same config, machine, parameters and schedule, or messages would cross.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "machine/machine_of.h"
#include "model/step.h"
#include "wire/group.h"

namespace plait {

// A thing that all ranks must have alike, and its value.
struct AgreedEntry {
  std::string name, value;  // "train.seed", "2"
};
struct AgreedSection {
  std::string title;  // "config"
  std::vector<AgreedEntry> entries;
};

// Config keys; constants of the machine; parameters with their types and seed; the list, step by step. Not
// schedule.machine: what stands in rank 0's file counts.
std::vector<AgreedSection> what_ranks_share(const Planned& run, const TrainingStep& step);

// Every rank calls it. Compares hashes; where they differ all ranks throw the same InputError, one line that names the
// first entry that differs and the ranks: "agreement: rank 3 has train.seed = 2, ranks 0-2 have 1".
void agree(wire::Group& everyone, const std::vector<AgreedSection>& mine);

}  // namespace plait
