// What a run tells of its steps and of its end.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "train/trainer.h"

namespace plait {

struct StepReport {
  int64_t step = 0, steps = 0;  // step counts from 1
  StepResult result;
  double lr = 0, ms = 0, tokens_per_s = 0, gflops = 0, seconds_left = 0;
  std::optional<double> val_loss;
};

struct RunReport {
  int64_t first_step = 0, last_step = 0;
  int signal = 0;        // that ended it; 0: none
  bool time_up = false;  // train.max_time ended it
  double seconds = 0, tokens_per_s = 0;
  std::optional<double> val_loss;
  std::string checkpoint;  // the folder written last, or gone on from; empty: none

  bool interrupted() const { return signal != 0 || time_up; }
};

}  // namespace plait
