// The dense feed-forward block: column-parallel up (and gate), activation, row-parallel down.
#pragma once
#include "model/writer.h"

namespace plait {

// Of the norm, [T, D] as tokens are held between blocks, to what is added to the residual stream.
ValueId write_feed_forward(Writer& w, ValueId normed, int64_t layer, Biases biases = Biases::none);
// The experts that every token goes to, one feed-forward of their common width.
ValueId write_shared_experts(Writer& w, ValueId normed, int64_t layer, Biases biases = Biases::none);

// Of the product into the hidden dim: [front.., U, hidden, D], with a gate beside the values where there is one.
std::string up_name(const ModelSizes& sizes);  // "gate_up_proj"
std::vector<Dim> up_dims(const ModelSizes& sizes, std::vector<Dim> front, Dim hidden);

}  // namespace plait
