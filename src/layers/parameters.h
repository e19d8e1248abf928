// The parameters of a model: global name, how they start, whether weight decay applies. Their dims and how ranks hold
// them are the leaf types of the schedule.
#pragma once
#include <string>
#include <vector>

namespace plait {

struct Parameter {
  std::string name;        // global, as in published checkpoints: "model.layers.0.self_attn.q_proj.weight"
  double init_std = 0.02;  // normal(0, init_std); 0: all ones
  bool decays = true;      // matrices only
};

}  // namespace plait
