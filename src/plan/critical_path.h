// What a step's time consists of: the chain of steps of which each waited for the one before it. What does not lie on
// it may take longer without the step taking longer.
#pragma once
#include "plan/simulate.h"

namespace plait {

struct CriticalStep {
  int rank = 0, lane = 0, step = 0;
  double start = 0;  // s: when all that it waited for was there: the last of its group, where it is a message
  double end = 0;
  double idle = 0;  // s between the end of the one before and its start: handing over; in a measured step also what is
                    // in no span
};

// First to last; idle and spans together reach from 0 to the end of the last one. `timeline` is of one rank, or of all.
std::vector<CriticalStep> critical_path(const Schedule& schedule, const Timeline& timeline);

}  // namespace plait
