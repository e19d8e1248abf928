// Random edits of random schedules: whatever `check` accepts must compute what one rank computes.
#pragma once
#include <string>
#include <vector>

#include "passes/testing/edits.h"

namespace plait::oracle {

struct FuzzReport {
  int edits = 0, unchanged = 0, refused = 0, right = 0;
  std::vector<std::string> wrong;  // accepted, and wrong or not to be run: the schedule, the edits and what came out
};

FuzzReport fuzz(int edits, uint64_t seed);

}  // namespace plait::oracle
