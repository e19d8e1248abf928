// The decoder of Llama and Mixtral: a norm before each block, causal attention, a feed-forward or experts.
#include "model/architectures/code.h"
#include "model/blocks/attention.h"
#include "model/blocks/embedding.h"
#include "model/blocks/feed_forward.h"
#include "model/blocks/head.h"
#include "model/blocks/norm.h"

namespace plait::architectures {
namespace {

ValueId write_norm(Writer& w, ValueId x, int64_t layer, const char* name) {
  return write_rms_norm(w, x, in_layer(layer, gain(w, name)));
}

// To the residual stream.
ValueId add(Writer& w, ValueId x, std::vector<ValueId> terms) {
  terms.insert(terms.begin(), x);
  return w.b.add(Add{}, terms, "x");
}

WrittenModel write(Writer& w) {
  WrittenModel m;
  w.begin("embed.");
  ValueId x = write_embedding(w);
  for (int64_t l = 0; l < w.sizes.layers; ++l) {
    w.begin_layer(l);
    x = add(w, x, {write_attention(w, write_norm(w, x, l, "input_layernorm.weight"), l)});
    const ValueId normed = write_norm(w, x, l, "post_attention_layernorm.weight");
    if (w.sizes.has_experts(l)) {
      const MoeTerms moe = write_moe(w, normed, l);
      x = add(w, x, moe.terms);
      m.gates.push_back(moe.sums);
    } else {
      x = add(w, x, {write_feed_forward(w, normed, l)});
    }
  }
  w.begin("head.");
  m.logits = write_head(w, write_rms_norm(w, x, gain(w, "model.norm.weight")));
  return m;
}

}  // namespace

constinit const ArchitectureCode mixtral_code = {.write = write, .moe = write_moe};

}  // namespace plait::architectures
