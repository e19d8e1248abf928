#include "train/feed.h"

#include <ATen/ops/full.h>

#include "base/errors.h"

namespace plait {

at::Tensor data_leaf(const std::string& leaf, const data::Batch& batch, const BatchShape& shape, at::ScalarType dtype) {
  if (leaf == "ids") return batch.ids_T;
  if (leaf == "targets") return batch.targets_T;
  if (leaf == "positions") return batch.positions_T;
  if (leaf == "mask") return batch.mask_T;
  if (leaf == "weight") return batch.mask_T.to(dtype).div_(static_cast<double>(batch.num_targets));
  if (leaf == "inv_tokens") return at::full({}, 1.0 / static_cast<double>(shape.micro_tokens), dtype);
  if (leaf == "step_key") return at::full({}, shape.step_key, at::kLong);
  expects(leaf == "share", "no data for leaf " + leaf);
  return at::full({}, static_cast<double>(shape.micro_tokens) / static_cast<double>(shape.batch_tokens), dtype);
}

}  // namespace plait
