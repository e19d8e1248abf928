// From whole tensors to what a rank holds, and back: how a run starts, how it is saved, how layouts are compared.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/step.h"
#include "run/executor.h"

namespace plait {

// How a rank stores a tensor: the dims that it is computed with, and the leaf's own, which may pack these into shares.
struct Stored {
  std::vector<Dim> dims;
  Type leaf;
};
// Parameters and state of a training step, by name; state has the dims of its parameter.
std::map<std::string, Stored> stored(const TrainingStep& step);
std::vector<int64_t> whole_shape(const Stored& stored);

// What a rank stores of a parameter at the start: depends on the seed, the global name and the global index only, so it
// is the same at every layout.
at::Tensor initial_part(const Parameter& parameter, const Stored& stored, uint64_t seed, const StepTypes& where);

// What a rank stores of a whole tensor, contiguous.
at::Tensor part_of(const at::Tensor& whole, const Stored& stored, const StepTypes& where);
// The same of a value that is stored as it is computed with.
at::Tensor part_of(const at::Tensor& whole, const Type& type, const StepTypes& where);

// Gives every rank the whole of values that ranks store in parts, one at a time, by a schedule of joins.
class Joiner {
 public:
  Joiner(const TrainingStep& step, RankContext context);

  // Every rank calls it, for the same names in the same order.
  at::Tensor whole(const std::string& leaf, const at::Tensor& part);

 private:
  std::map<std::string, Executor> joins_;
};

}  // namespace plait
