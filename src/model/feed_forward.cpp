// The dense feed-forward block: norm, column-parallel up (and gate), activation, row-parallel down.
#include "model/writer.h"

namespace plait {

namespace {

// `prefix`: of the parameters, "mlp." or "mlp.shared_experts.".
ValueId write_products(Writer& w, ValueId normed, const std::string& prefix) {
  const ModelSizes& s = w.sizes;
  const ValueId h = w.to_parallel(normed);
  const std::vector<std::string> hidden =
      s.glu ? std::vector<std::string>{"T", "U", "F"} : std::vector<std::string>{"T", "F"};
  const ValueId up = w.product(h, prefix + (s.glu ? "gate_up_proj.weight" : "up_proj.weight"), hidden, "up");
  const ValueId act = w.b.add(Activate{s.act, s.glu}, {up}, "act");
  return w.from_parallel(w.product(act, prefix + "down_proj.weight", {"T", "D"}, "down"));
}

}  // namespace

ValueId write_feed_forward(Writer& w, ValueId x, int64_t layer) {
  const ValueId normed = w.norm(x, layer_name(layer, "post_attention_layernorm.weight"));
  return w.b.add(Add{}, {x, write_products(w, normed, layer_name(layer, "mlp."))}, "x");
}

ValueId write_shared_experts(Writer& w, ValueId normed, int64_t layer) {
  return write_products(w, normed, layer_name(layer, "mlp.shared_experts."));
}

}  // namespace plait
