// One MoE layer alone, forward and backward: what a layer's benchmark performs. No norm and no residual stream.
#pragma once
#include <map>
#include <string>

#include "model/model.h"

namespace plait {

// Data leaves: x [T, D] as tokens are held between blocks, dy the cotangent of y, mask[T] and what else the gate reads
// (see Model); with the hash gate ids[T]. The auxiliary loss, where there is one, starts from a seed. The way back
// starts when the way there has ended, as in a model, where dy comes last: an empty section stands between them.
struct MoeLayer {
  Schedule schedule;  // lowered: ready to run
  std::vector<Parameter> parameters;
  ValueId y = -1;
  ValueId chosen = -1, kept = -1;            // [E]: routes before and after dropping, in the world
  std::map<std::string, ValueId> gradients;  // of the parameters, and of x
};

// REQUIRES sizes of one layer that has experts.
MoeLayer build_moe_layer(const Mesh& mesh, const ModelSizes& sizes);

}  // namespace plait
