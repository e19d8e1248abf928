// The attention block: norm, queries, keys and values by heads (column-parallel), causal attention, row-parallel
// output.
#include "model/writer.h"

namespace plait {

ValueId write_attention(Writer& w, ValueId x, int64_t layer) {
  const auto weight = [&](const char* name) { return layer_name(layer, std::string("self_attn.") + name + ".weight"); };
  const ValueId h = w.to_parallel(w.norm(x, layer_name(layer, "input_layernorm.weight")));
  const auto by_sequence = [&](ValueId v) { return w.b.add(Unflatten{"T", "B", "S", w.sizes.positions}, {v}); };
  const auto turned = [&](ValueId v) { return w.b.add(Rope{w.sizes.rope_theta}, {v}); };
  const ValueId q = turned(by_sequence(w.product(h, weight("q_proj"), {"T", "H", "A"}, "q")));
  const ValueId k = turned(by_sequence(w.product(h, weight("k_proj"), {"T", "J", "A"}, "k")));
  const ValueId v = by_sequence(w.product(h, weight("v_proj"), {"T", "J", "A"}, "v"));
  const ValueId o = w.b.add(Flatten{"T", "B", "S"}, {w.b.add_all(Attention{}, {q, k, v}, "attention").front()});
  return w.b.add(Add{}, {x, w.from_parallel(w.product(o, weight("o_proj"), {"T", "D"}, "attention_out"))}, "x");
}

}  // namespace plait
