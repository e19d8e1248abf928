// Training steps run directly on all ranks, on parameters and tokens given whole: for cases that no config can say.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "model/step.h"

namespace plait {

using Tensors = std::map<std::string, at::Tensor>;  // by parameter

// One micro-batch of the whole world, [T] each, int64; mask 1 = a real token.
struct Tokens {
  at::Tensor ids, targets, mask;
};

struct StepCase {
  MeshSize mesh = {};
  ModelSizes sizes;
  Optimizer optimizer = {.kind = Optimizer::Kind::sgd, .weight_decay = 0, .clip = 0};
  double lr = 0.5;
  Tensors parameters;
  std::vector<Tokens> micro;  // the batch of every step
  int steps = 1;
  at::ScalarType dtype = at::kDouble;
};

struct StepOutcome {
  std::vector<double> nll;                        // by step
  double aux = 0, norm = 0;                       // of the first step, as what follows
  Tensors gradients;                              // before clipping
  std::vector<std::vector<double>> chosen, kept;  // by MoE layer: routes of each expert
  std::vector<int64_t> expert_rows;               // by rank: rows that entered the experts of the last MoE layer
  Tensors updated;                                // parameters after the last step
  std::vector<std::string> replicas;              // parameters of which two replicas differ in a bit, after any step
};

StepOutcome run_steps(const StepCase& c);

// Normal numbers large enough that everything counts; gains around 1.
Tensors random_parameters(const ModelSizes& sizes);

// Random ids and targets, all real; `salt` makes other ones.
Tokens random_tokens(const ModelSizes& sizes, uint64_t salt = 1);

// Small sizes in which no two dims are equal: D 16, 4 heads, S 8, B 4, V 24, dense F 20, 4 experts of F 12.
ModelSizes small_sizes();

// max|a - b| / max|b|; of what is nothing but rounding, which each processor does in its own way, / 1e-4.
double relative_difference(const at::Tensor& a, const at::Tensor& b);

// The largest over all tensors; both must have the same names.
double largest_difference(const Tensors& mine, const Tensors& theirs);

}  // namespace plait
