// The learning rate of an update: linear warm-up, then a cosine down to its lowest value at the last update. Also where
// a single update follows the warm-up that one is the last; a run that the warm-up fills never falls, and one of a
// single update without a warm-up makes it at the highest.
#pragma once
#include <cstdint>

namespace plait {

struct LearningRate {
  double highest = 1e-3;
  double lowest = 1e-4;
  int64_t warmup_steps = 0;
  int64_t steps = 1;  // updates of the whole run

  // `step` counts updates from 0. The first warm-up value is highest / warmup_steps, the last is `highest`; after the
  // end it stays `lowest`.
  double at(int64_t step) const;
};

}  // namespace plait
