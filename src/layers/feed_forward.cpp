// The dense feed-forward block: norm, column-parallel up (and gate), activation, row-parallel down.
#include "layers/writer.h"

namespace plait {

ValueId write_feed_forward(Writer& w, ValueId x, int64_t layer) {
  const ModelSizes& s = w.sizes;
  const ValueId h = w.to_parallel(w.norm(x, layer_name(layer, "post_attention_layernorm.weight")));
  const std::vector<std::string> hidden =
      s.glu ? std::vector<std::string>{"T", "U", "F"} : std::vector<std::string>{"T", "F"};
  const ValueId up =
      w.product(h, layer_name(layer, s.glu ? "mlp.gate_up_proj.weight" : "mlp.up_proj.weight"), hidden, "up");
  const ValueId act = w.b.add(Activate{s.act, s.glu}, {up}, "act");
  const ValueId down = w.product(act, layer_name(layer, "mlp.down_proj.weight"), {"T", "D"}, "down");
  return w.b.add(Add{}, {x, w.from_parallel(down)}, "x");
}

}  // namespace plait
