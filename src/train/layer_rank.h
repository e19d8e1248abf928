// One rank of a MoE layer alone: parameters and random data as whole tensors, which depend on the sizes only, and the
// executor that runs the layer on this rank's part of them.
#pragma once
#include "layers/moe_layer.h"
#include "run/executor.h"
#include "train/plain_layer.h"

namespace plait {

// The same on every rank and at every layout.
struct LayerData {
  Tensors parameters;  // as one rank starts with them
  PlainTokens tokens;
};
LayerData layer_data(const ModelSizes& sizes);

class LayerRank {
 public:
  // Every rank of the world makes one. `data` must outlive it.
  LayerRank(const MoeLayer& layer, const LayerData& data, RankContext context, Keep keep = {});

  // Forward and backward, once. Every rank calls it.
  void run();

  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }

  // What this rank holds of a whole tensor, where it is held like value `like`.
  at::Tensor part(const at::Tensor& whole, ValueId like) const;

 private:
  StepTypes where(at::ScalarType dtype) const { return {executor_.schedule().mesh, context_.rank, {}, {}, dtype}; }
  at::ScalarType real(const Type& type) const;  // what numbers of this type are made of
  void bind();
  at::Tensor data(const std::string& leaf, const Type& type) const;

  const LayerData& all_;
  RankContext context_;
  Executor executor_;
  std::map<std::string, at::Tensor> data_;
};

}  // namespace plait
