#include "model/blocks/norm.h"

namespace plait {

Parameter gain(const Writer& w, const std::string& name) {
  return {.name = name,
          .dims = {{"D", w.sizes.width}},
          .over = w.tokens,
          .init = Ones{},
          .decays = false,
          .dtype = Dtype::full,
          .group = "norms"};
}

ValueId write_rms_norm(Writer& w, ValueId x, const Parameter& gain) {
  return w.b.add(RmsNorm{w.sizes.norm_eps}, {x, w.parameter(gain)}, "norm");
}

ValueId write_layer_norm(Writer& w, ValueId x, int64_t layer, const std::string& name) {
  Parameter weight = gain(w, name + ".weight"), bias = gain(w, name + ".bias");
  bias.init = Zeros{};
  if (layer >= 0) {
    weight = in_layer(layer, weight);
    bias = in_layer(layer, bias);
  }
  return w.b.add(LayerNorm{w.sizes.norm_eps}, {x, w.parameter(weight), w.parameter(bias)}, "norm");
}

ValueId write_norm_over_heads(Writer& w, ValueId x, const Parameter& gain) {
  const ValueId mean = w.b.enter(w.b.leave(w.b.add(MeanSquare{}, {x}, "mean_square"), w.tp), w.tp);
  return w.b.add(RmsScale{w.sizes.norm_eps}, {x, mean, w.parameter(gain)}, "norm");
}

}  // namespace plait
