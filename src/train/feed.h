// The data leaves of a model from a batch: ids, targets, the weight of each target in the loss, what the gates need.
#pragma once
#include "data/batch.h"
#include "run/executor.h"

namespace plait {

struct BatchShape {
  int64_t micro_tokens = 1;  // real tokens of the micro-batch in the world
  int64_t batch_tokens = 1;  // of the whole batch
  int64_t step_key = 0;      // what the gates' draws depend on
};

// The leaf of this name: ids, targets, mask, weight (1 / real targets of the batch), inv_tokens, share, step_key.
at::Tensor data_leaf(const std::string& leaf, const data::Batch& batch, const BatchShape& shape, at::ScalarType dtype);

}  // namespace plait
