// Whole runs of the smallest model, in a folder of their own, and checkpoints changed by hand.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/testing/scratch_folder.h"
#include "train/loop.h"

namespace plait {

// D 16, 2 layers of which the second has 4 experts, S 8, 8 sequences, AdamW; `overrides` come last.
Config small_run(const std::string& dir, const std::vector<std::string>& overrides = {});

// Trains to the end, or until `stop_after` steps are done and a checkpoint is written.
RunReport run_to(const Config& config, const data::Corpus& corpus, int64_t stop_after = -1);

// Rewrites the latest checkpoint of a run: `change` gets every tensor, model first, and may write in it.
void rewrite_checkpoint(const std::string& dir,
                        const std::function<void(const std::string& name, const at::Tensor& tensor)>& change);

}  // namespace plait
