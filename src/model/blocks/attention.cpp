#include "model/blocks/attention.h"

namespace plait {

ValueId write_attention(Writer& w, ValueId normed, int64_t layer) {
  const ModelSizes& s = w.sizes;
  const Dim d{"D", s.width}, a{"A", s.head_size()}, heads{"H", s.heads, stack_of(w.tp)},
      kv{"J", s.kv_heads, stack_of(w.tp)};
  const auto weight = [&](const char* part, std::vector<Dim> dims, Init init = Normal{}) {
    return in_layer(layer, {.name = fmt::format("self_attn.{}.weight", part),
                            .dims = std::move(dims),
                            .over = w.dp,
                            .init = init,
                            .group = "attention"});
  };
  const ValueId h = w.to_parallel(normed);
  const auto by_sequence = [&](ValueId v) { return w.b.add(Unflatten{"T", "B", "S", s.positions}, {v}); };
  const auto turned = [&](ValueId v) { return w.b.add(Rope{s.rope_theta}, {v}); };
  const ValueId q = turned(by_sequence(w.product(h, weight("q_proj", {heads, a, d}), {"T", "H", "A"}, "q")));
  const ValueId k = turned(by_sequence(w.product(h, weight("k_proj", {kv, a, d}), {"T", "J", "A"}, "k")));
  const ValueId v = by_sequence(w.product(h, weight("v_proj", {kv, a, d}), {"T", "J", "A"}, "v"));
  const ValueId o = w.b.add(Flatten{"T", "B", "S"}, {w.b.add_all(Attention{}, {q, k, v}, "attention").front()});
  const Parameter out = weight("o_proj", {d, heads, a}, residual_init(s));
  return w.from_parallel(w.product(o, out, {"T", "D"}, "attention_out"));
}

}  // namespace plait
