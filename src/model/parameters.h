// The parameters of a model, declared where they are used: global name, dims, over which ranks their readers' tokens
// are cut, how they start, whether weight decay applies. How ranks store them is the type of the leaf: these dims, or
// packed in one dim Z that more ranks share out (ZeRO).
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "schedule/builder.h"

namespace plait {

// How the numbers of a parameter start.
struct Normal {
  double deviation = 0.02;
  bool operator==(const Normal&) const = default;
};
struct Ones {
  bool operator==(const Ones&) const = default;
};
struct Zeros {
  bool operator==(const Zeros&) const = default;
};
using Init = std::variant<Normal, Ones, Zeros>;
std::string to_string(const Init& init);  // "deviation 0.02", "ones"

struct Parameter {
  std::string name;       // global, as in published checkpoints: "model.layers.0.self_attn.q_proj.weight"
  std::vector<Dim> dims;  // as they are computed with, with the stacks of tp, esp and ep
  Atoms over = {};        // atoms over which its readers' tokens are cut: it is entered there, or shared out (ZeRO)
  Init init = Normal{};
  bool decays = true;         // matrices only
  Dtype dtype = Dtype::real;  // as the forward pass uses it: gains and gates are `full`; kept and updated in full
  std::string group = {};     // what reports put it with: "attention"
  bool routed = false;        // each expert has its own: a token meets only those of the experts it goes to
  int64_t layer = -1;         // -1: of no layer
  bool operator==(const Parameter&) const = default;
};

int64_t num_elements(const Parameter& p);  // in the world

std::string layer_name(int64_t layer, const std::string& part);  // "model.layers.3." + part
Parameter in_layer(int64_t layer, Parameter p);                  // whose name is that of a part of the layer

}  // namespace plait
