#include "model/blocks/decoder.h"

#include "model/blocks/feed_forward.h"
#include "model/blocks/head.h"
#include "model/blocks/norm.h"

namespace plait {

ValueId write_rms_norm_of(Writer& w, ValueId x, int64_t layer, const std::string& name) {
  const Parameter weight = gain(w, name + ".weight");
  return write_rms_norm(w, x, layer < 0 ? weight : in_layer(layer, weight));
}

ValueId write_plain_feed_forward(Writer& w, ValueId normed, int64_t layer) {
  return write_feed_forward(w, normed, layer);
}

namespace {

// To the residual stream.
ValueId add(Writer& w, ValueId x, std::vector<ValueId> terms) {
  terms.insert(terms.begin(), x);
  return w.b.add(Add{}, terms, "x");
}

}  // namespace

WrittenModel write_decoder(Writer& w, const DecoderBlocks& blocks) {
  WrittenModel m;
  w.begin("embed.");
  ValueId x = blocks.embedding(w);
  for (int64_t l = 0; l < w.sizes.layers; ++l) {
    w.begin_layer(l);
    x = add(w, x, {blocks.attention(w, blocks.norm(w, x, l, "input_layernorm"), l)});
    const ValueId normed = blocks.norm(w, x, l, "post_attention_layernorm");
    if (w.sizes.has_experts(l)) {
      const MoeTerms moe = blocks.moe(w, normed, l);
      x = add(w, x, moe.terms);
      m.gates.push_back(moe.sums);
    } else {
      x = add(w, x, {blocks.feed_forward(w, normed, l)});
    }
  }
  w.begin("head.");
  m.logits = write_head(w, blocks.norm(w, x, -1, "model.norm"));
  return m;
}

}  // namespace plait
