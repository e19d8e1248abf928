// One MoE layer as one writes it first: ATen under autograd on one rank, an index_select and a pair of matrices for
// each expert. What the benchmark of a layer compares with, in numbers and in time; nothing of the schedule or the
// kernels is in it.
#pragma once
#include "model/sizes.h"
#include "tune/layer_tokens.h"

namespace plait {

struct PlainOutcome {
  at::Tensor y_TD, dx_TD;
  std::map<std::string, std::vector<at::Tensor>> gradients;  // of the parameters: one for each expert, or one
};

// Forward and backward of the sum of y * dy and the auxiliary loss. Parameters are whole, by name; the tokens are whole
// gate groups, or part of one. Without capacity, but for expert choice.
PlainOutcome plain_layer(const ModelSizes& sizes, const Tensors& parameters, const LayerTokens& tokens);

}  // namespace plait
