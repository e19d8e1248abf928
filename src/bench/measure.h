// Steps of training on random tokens, recorded: for pictures of what a config does on this machine, and for benches.
#pragma once
#include "data/corpus.h"
#include "machine/machine_of.h"
#include "run/recording.h"
#include "wire/slow.h"

namespace plait {

struct StepRequest {
  int64_t warm_up = 2, steps = 3;
  wire::SlowWorld::Delay delay = {};  // of every message; empty: none
};

struct RecordedSteps {
  Schedule schedule;
  std::vector<Timeline> steps;
  const Timeline& fastest() const;
};

// Every rank of a resolved config runs them; all begin each step together.
RecordedSteps record_steps(const Planned& run, const StepRequest& request = {});

// Random tokens, enough for many batches of the config.
data::Corpus bench_corpus(const Config& config);

}  // namespace plait
