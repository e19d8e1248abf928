// One rank of a MoE layer alone: the executor that runs the layer, on parameters as one rank starts with them and
// random tokens, of which each rank makes its own part. They depend on the sizes only, so they are the same at every
// layout.
#pragma once
#include "model/moe_layer.h"
#include "run/executor.h"
#include "tune/layer_tokens.h"

namespace plait {

// What the ranks hold parts of, as whole tensors: for those who look at all of it.
struct LayerData {
  Tensors parameters;  // as one rank starts with them
  LayerTokens tokens;
};
LayerData layer_data(const ModelSizes& sizes);

class LayerRank {
 public:
  // Every rank of the world makes one.
  LayerRank(const MoeLayer& layer, const ModelSizes& sizes, RankContext context, Keep keep = {});

  // Forward and backward, once. Every rank calls it.
  void run();

  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }

  // What this rank holds of a whole tensor, where it is held like value `like`.
  at::Tensor part(const at::Tensor& whole, ValueId like) const;

 private:
  StepTypes where(at::ScalarType dtype) const { return {executor_.schedule().mesh, context_.rank, {}, {}, dtype}; }
  at::ScalarType scalar(const Type& type) const { return where(context_.dtype).scalar(type); }
  void bind(const MoeLayer& layer, const ModelSizes& sizes);
  at::Tensor random_part(const Parameter& like, const Type& type) const;
  at::Tensor data(const std::string& leaf, const Type& type, const ModelSizes& sizes) const;

  RankContext context_;
  Executor executor_;
  std::map<std::string, at::Tensor> data_;
};

}  // namespace plait
