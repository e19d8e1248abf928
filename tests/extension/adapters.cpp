// An architecture: no attention, a norm behind each layer, an adapter that starts at zero beside experts of every
// layer.
#include "base/errors.h"
#include "config/checks.h"
#include "config/config.h"
#include "extension/extension.h"
#include "model/architectures/code.h"
#include "model/blocks/embedding.h"
#include "model/blocks/head.h"
#include "model/blocks/norm.h"

namespace plait::extension {
namespace {

constexpr int64_t kInside = 6;  // of the adapter

// x + up(softcap(down(x))), of the tokens that this rank holds.
ValueId write_adapter(Writer& w, ValueId x, int64_t layer) {
  const Dim d{"D", w.sizes.width}, f{"F", kInside};
  const auto weight = [&](const char* part, std::vector<Dim> dims, Init init) {
    return in_layer(layer,
                    {.name = part, .dims = std::move(dims), .over = w.tokens, .init = init, .group = "adapters"});
  };
  ValueId inside = w.product(x, weight("adapter.down", {f, d}, Normal{0.5}), {"T", "F"}, "inside");
  inside = w.b.add(external(softcap, {{"cap", 1.5}}), {inside}, "capped");
  return w.b.add(Add{}, {x, w.product(inside, weight("adapter.up", {d, f}, Zeros{}), {"T", "D"}, "adapted")}, "x");
}

WrittenModel write(Writer& w) {
  WrittenModel m;
  w.begin("embed.");
  ValueId x = write_embedding(w);
  for (int64_t l = 0; l < w.sizes.layers; ++l) {
    w.begin_layer(l);
    x = write_adapter(w, x, l);
    MoeTerms moe = write_moe(w, x, l);
    moe.terms.push_back(x);
    x = write_rms_norm(w, w.b.add(Add{}, moe.terms, "x"), in_layer(l, gain(w, "output_norm.weight")));
    m.gates.push_back(moe.sums);
  }
  w.begin("head.");
  m.logits = write_head(w, x);
  return m;
}

void check_adapters(const Config& c) {
  must_divide({"mesh.tp", c.mesh.tp}, {"model.vocab_size", c.model.vocab_size});
  if (num_expert_layers(c) < c.model.num_hidden_layers)
    input_error("moe.every = {}, but every layer of adapters has experts: set it to 1", c.moe.every);
}

constexpr std::string_view kKeys[] = {"model.vocab_size", "model.hidden_size",  "model.num_hidden_layers",
                                      "model.glu",        "model.rms_norm_eps", "model.intermediate_size"};
const ArchitectureCode kCode = {.write = write, .moe = write_moe};

}  // namespace

extern const Architecture adapters = {.name = "adapters",
                                      .help = "experts and adapters without attention",
                                      .keys = kKeys,
                                      .check = check_adapters,
                                      .code = &kCode};

}  // namespace plait::extension
