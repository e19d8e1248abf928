// The steps of a run again, from its last checkpoint on, in its own type, layout and data: the first value that is not
// finite. Nothing is written.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "data/corpus.h"
#include "machine/machine_of.h"

namespace plait {

struct ReplayPlan {
  std::string checkpoint;      // its folder; empty: there is none yet, and the run begins anew
  int64_t first = 0, end = 0;  // updates, counted from 0
};

// From the last checkpoint in log.dir to the end of the run, or `steps` updates. InputError where none are left.
ReplayPlan replay_plan(const Config& config, std::optional<int64_t> steps = {});

// A token of a batch: `start` is where its sequence begins in the training part.
struct BatchToken {
  int64_t sequence = 0, position = 0, start = 0;
};

struct NotFiniteValue {
  int64_t step = 0;                  // of the run, from 1
  int micro = 0, index = -1;         // micro-batch and step of the list, from 0; -1, and the list's size: a leaf
  int rank = 0;                      // that has it
  std::string value;                 // its name in the list
  std::optional<int64_t> layer;      // that it belongs to
  std::optional<BatchToken> sample;  // of a value with a row for each token
  std::string text;                  // all of this, and what it was computed from
};

// The first in the order of steps, micro-batches, the list and ranks. A step that float16 skips counts only where the
// replay ends without another. The ranks are threads of this process.
std::optional<NotFiniteValue> first_not_finite(const Planned& run, const data::Corpus& corpus, const ReplayPlan& plan);

}  // namespace plait
