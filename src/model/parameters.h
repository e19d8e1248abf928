// The parameters of a model: global name, how they start, whether weight decay applies, and their dims. How ranks store
// them is the type of the leaf: these dims, or packed in one dim Z that more ranks share out (ZeRO).
#pragma once
#include <string>
#include <vector>

#include "schedule/type.h"

namespace plait {

struct Parameter {
  std::string name;            // global, as in published checkpoints: "model.layers.0.self_attn.q_proj.weight"
  double init_std = 0.02;      // normal(0, init_std); 0: all ones
  bool decays = true;          // matrices only
  Dtype dtype = Dtype::real;   // as the forward pass uses it: gains and gates are `full`; kept and updated in full
  std::vector<Dim> dims = {};  // as they are computed with, with the stacks of tp, esp and ep
};

}  // namespace plait
