#include "model/blocks/feed_forward.h"

namespace plait {
namespace {

struct FeedForward {
  std::string prefix;  // of the parameters, "mlp." or "mlp.shared_experts."
  int64_t width;       // inside
  Biases biases;
};

ValueId write_products(Writer& w, ValueId normed, int64_t layer, const FeedForward& block) {
  const ModelSizes& s = w.sizes;
  const Dim f{"F", block.width, stack_of(w.tp)}, d{"D", s.width};
  const auto weight = [&](const std::string& part, std::vector<Dim> dims, Init init) {
    return in_layer(layer, {.name = fmt::format("{}{}.weight", block.prefix, part),
                            .dims = std::move(dims),
                            .over = w.dp,
                            .init = init,
                            .group = "feed-forward"});
  };
  const auto biased = [&](ValueId x, const std::string& part, Dim dim, Atoms over) {
    if (block.biases == Biases::none) return x;
    const Parameter bias = in_layer(layer, {.name = fmt::format("{}{}.bias", block.prefix, part),
                                            .dims = {std::move(dim)},
                                            .over = std::move(over),
                                            .group = "feed-forward"});
    return add_bias(w, x, bias, "biased");
  };
  const ValueId h = w.to_parallel(normed);
  const std::vector<std::string> hidden =
      s.glu ? std::vector<std::string>{"T", "U", "F"} : std::vector<std::string>{"T", "F"};
  ValueId up = w.product(h, weight(up_name(s), up_dims(s, {}, f), Normal{}), hidden, "up");
  up = biased(up, up_name(s), f, w.dp);
  const ValueId act = w.b.add(Activate{s.act, s.glu}, {up}, "act");
  const ValueId down = w.product(act, weight("down_proj", {d, f}, residual_init(s)), {"T", "D"}, "down");
  return biased(w.from_parallel(down), "down_proj", d, w.tokens);
}

}  // namespace

std::string up_name(const ModelSizes& s) { return s.glu ? "gate_up_proj" : "up_proj"; }

std::vector<Dim> up_dims(const ModelSizes& s, std::vector<Dim> front, Dim hidden) {
  if (s.glu) front.push_back({"U", 2});
  front.push_back(std::move(hidden));
  front.push_back({"D", s.width});
  return front;
}

ValueId write_feed_forward(Writer& w, ValueId normed, int64_t layer, Biases biases) {
  return write_products(w, normed, layer, {"mlp.", w.sizes.ffn, biases});
}

ValueId write_shared_experts(Writer& w, ValueId normed, int64_t layer, Biases biases) {
  return write_products(w, normed, layer, {"mlp.shared_experts.", w.sizes.shared_ffn, biases});
}

}  // namespace plait
