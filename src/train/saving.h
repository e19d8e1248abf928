// A checkpoint of a run: all ranks gather its tensors, rank 0 writes them in a thread of its own, and nobody waits in
// one message for longer than a second: a save that makes progress has no deadline.
#pragma once
#include <functional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "wire/group.h"

namespace plait {

struct SavePlan {
  std::string dir;
  int keep = 0;                                                  // checkpoints, 0: all
  double patience = 300;                                         // s in which the disk must take something
  std::function<void(int64_t done, int64_t all)> progress = {};  // bytes; rank 0, every few seconds of a long save
};

struct SaveResult {
  enum class Outcome { saved, refused, not_finite, stuck } outcome;
  std::string why;  // at rank 0, where it was not saved: the disk's words, or the tensor's name
  double seconds = 0;
};

// Every rank calls it with the same lists and gets the same outcome. Where it is not `saved`, the folder is as it was:
// the disk refused, or a tensor holds a value that is not finite, which is never saved. After `stuck`, where the disk
// took nothing for so long, a thread is left behind that still writes when it can: the process should end.
SaveResult save_together(wire::Group& everyone, CheckpointContent content, const SavePlan& plan);

}  // namespace plait
