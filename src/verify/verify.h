// One layout against one rank in float64: the same data, gate groups and micro-batches must give the same loss,
// gradients, norm and updates, and all replicas the same bits.
#pragma once
#include <string>
#include <vector>

#include "data/corpus.h"
#include "machine/machine_of.h"

namespace plait {

// The largest max|a - b| / max|b| over the tensors of one class.
struct Difference {
  std::string what;   // "gradient", "parameters after 3 AdamW steps", ...
  std::string group;  // "experts", "attention", ...
  std::string worst;  // the tensor it belongs to
  double relative = 0;
};

struct VerifyReport {
  std::vector<Difference> differences;
  std::vector<std::string>
      replicas;  // parameters of which two replicas differ in a bit: "NAME on ranks 0 and 3 after step 1"
  double largest() const;
  bool agrees() const { return replicas.empty() && largest() < 1e-9; }
};

// The config is resolved and valid; its dtype is taken as float64.
VerifyReport verify(const Planned& run, const data::Corpus& corpus);

// The first value, in the order of the layout's list, that differs from one rank by more than 1e-9 or is not finite;
// empty when there is none. Rows on their way to experts are looked at when they are back.
std::string locate(const Planned& run, const data::Corpus& corpus);

}  // namespace plait
