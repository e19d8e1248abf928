// What one MoE layer alone is fed: whole parameters by name, tokens with the cotangents of what the layer makes of
// them.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace plait {

using Tensors = std::map<std::string, at::Tensor>;

struct LayerTokens {
  at::Tensor x_TD, dy_TD;
  at::Tensor ids_T;     // hash gate
  at::Tensor routes_T;  // base gate: the expert of each token; the assignment itself has no plain form
  at::Tensor noise_TE;  // noisy top-k gate: normal draws
};

}  // namespace plait
