#include "model/blocks/feed_forward.h"

namespace plait {
namespace {

// `prefix`: of the parameters, "mlp." or "mlp.shared_experts.".
ValueId write_products(Writer& w, ValueId normed, int64_t layer, const std::string& prefix, int64_t width) {
  const ModelSizes& s = w.sizes;
  const Dim f{"F", width, stack_of(w.tp)}, d{"D", s.width};
  const auto weight = [&](const std::string& part, std::vector<Dim> dims, Init init) {
    return in_layer(layer, {.name = fmt::format("{}{}.weight", prefix, part),
                            .dims = std::move(dims),
                            .over = w.dp,
                            .init = init,
                            .group = "feed-forward"});
  };
  const ValueId h = w.to_parallel(normed);
  const std::vector<std::string> hidden =
      s.glu ? std::vector<std::string>{"T", "U", "F"} : std::vector<std::string>{"T", "F"};
  const ValueId up = w.product(h, weight(up_name(s), up_dims(s, {}, f), Normal{}), hidden, "up");
  const ValueId act = w.b.add(Activate{s.act, s.glu}, {up}, "act");
  return w.from_parallel(w.product(act, weight("down_proj", {d, f}, residual_init(s)), {"T", "D"}, "down"));
}

}  // namespace

std::string up_name(const ModelSizes& s) { return s.glu ? "gate_up_proj" : "up_proj"; }

std::vector<Dim> up_dims(const ModelSizes& s, std::vector<Dim> front, Dim hidden) {
  if (s.glu) front.push_back({"U", 2});
  front.push_back(std::move(hidden));
  front.push_back({"D", s.width});
  return front;
}

ValueId write_feed_forward(Writer& w, ValueId normed, int64_t layer) {
  return write_products(w, normed, layer, "mlp.", w.sizes.ffn);
}

ValueId write_shared_experts(Writer& w, ValueId normed, int64_t layer) {
  return write_products(w, normed, layer, "mlp.shared_experts.", w.sizes.shared_experts * w.sizes.expert_ffn);
}

}  // namespace plait
