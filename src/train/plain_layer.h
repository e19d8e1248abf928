// One MoE layer as one writes it first: ATen under autograd on one rank, an index_select and a pair of matrices for
// each expert. What the benchmark of a layer compares with, in numbers and in time; nothing of the schedule or the
// kernels is in it.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "layers/sizes.h"

namespace plait {

using Tensors = std::map<std::string, at::Tensor>;

struct PlainTokens {
  at::Tensor x_TD, dy_TD;
  at::Tensor ids_T;     // hash gate
  at::Tensor routes_T;  // base gate: the expert of each token; the assignment itself has no plain form
  at::Tensor noise_TE;  // noisy top-k gate: normal draws
};

struct PlainOutcome {
  at::Tensor y_TD, dx_TD;
  std::map<std::string, std::vector<at::Tensor>> gradients;  // of the parameters: one for each expert, or one
};

// Forward and backward of the sum of y * dy and the auxiliary loss. Parameters are whole, by name; the tokens are whole
// gate groups, or part of one. Without capacity, but for expert choice.
PlainOutcome plain_layer(const ModelSizes& sizes, const Tensors& parameters, const PlainTokens& tokens);

}  // namespace plait
