// From whole tensors to what a rank holds, and back: how a run starts, how it is saved, how layouts are compared.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "layers/parameters.h"
#include "run/executor.h"

namespace plait {

// A rank's part of a parameter at the start: depends on the seed, the global name and the global index only, so it is
// the same at every layout.
at::Tensor initial_part(const Parameter& parameter, const Type& type, uint64_t seed, const StepTypes& where);

// A rank's part of a whole tensor, contiguous.
at::Tensor part_of(const at::Tensor& whole, const Type& type, const StepTypes& where);

// Gives every rank the whole of values that ranks hold in parts, one at a time, by a schedule of joins.
class Joiner {
 public:
  Joiner(const Schedule& schedule, RankContext context);

  // Every rank calls it, for the same names in the same order.
  at::Tensor whole(const std::string& leaf, const at::Tensor& part);

 private:
  std::map<std::string, Executor> joins_;
};

}  // namespace plait
