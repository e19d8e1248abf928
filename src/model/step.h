// A whole training step as one schedule: parameters entered, micro-batches forward and backward (a repeated section),
// gradients synchronised, their global norm, clipping, the update in place.
#pragma once
#include "model/model.h"

namespace plait {

struct Optimizer {
  using Kind = OptimizerKind;
  Kind kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double clip = 1;           // 0: none
  Dtype sums = Dtype::full;  // mixed precision: what gradients are added up in, over micro-batches and ranks
  enum class Scaling { none, dynamic } scaling = Scaling::none;
};

Optimizer optimizer(const Config& config);

// Scalar leaves: lr, step (AdamW counts from 1); with dynamic scaling loss_scale, from which the way back starts: where
// the gradient's norm is then not finite, the update changes nothing. State leaves: NAME.m and NAME.v, held like the
// parameter.
struct TrainingStep {
  Schedule schedule;  // lowered: ready to run
  std::vector<Parameter> parameters;
  ValueId nll = -1, aux = -1, norm = -1;
  std::vector<int64_t> moe_layers;
  std::vector<ValueId> chosen, kept;         // by MoE layer
  std::map<std::string, ValueId> gradients;  // parameter name -> its synchronised gradient, before clipping
};

// A step in sections: how many micro-batches, and how many elements of gradients are summed in one message (0: all).
struct Sections {
  int micro_batches = 1;
  int64_t bucket = 0;
};
TrainingStep build_step(const Mesh& mesh, const ModelSizes& sizes, const Optimizer& optimizer, Sections sections = {});

// Forward only, of a model's loss, as for_evaluation says; lowered.
struct Evaluation {
  Schedule schedule;
  ValueId nll = -1;
};
Evaluation build_evaluation(const Mesh& mesh, const ModelSizes& sizes);

}  // namespace plait
