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

}  // namespace plait
