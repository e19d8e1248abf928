// A global array from what all ranks of one process hold: for looking at a run, not part of one.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "schedule/type.h"

namespace plait {

// `parts` by rank, of a value without rows. P is summed, S put together, I and R taken from the first rank.
at::Tensor gathered(const Mesh& mesh, const Type& type, const std::vector<at::Tensor>& parts);

}  // namespace plait
