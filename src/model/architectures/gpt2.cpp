// GPT-2: LayerNorm in front of each block, learned positions, biases everywhere, the head tied to the embedding.
#include "model/blocks/attention.h"
#include "model/blocks/decoder.h"
#include "model/blocks/feed_forward.h"
#include "model/blocks/norm.h"

namespace plait::architectures {
namespace {

ValueId embedding(Writer& w) {
  const ValueId tokens = write_embedding(w);
  return w.b.add(Add{}, {tokens, write_positions(w)}, "x");
}

ValueId attention(Writer& w, ValueId normed, int64_t layer) {
  return write_attention(w, normed, layer,
                         {.biases = AttentionStyle::Biases::all, .positions = AttentionStyle::Positions::embedded});
}

ValueId feed_forward(Writer& w, ValueId normed, int64_t layer) {
  return write_feed_forward(w, normed, layer, Biases::all);
}

MoeTerms moe(Writer& w, ValueId normed, int64_t layer) { return write_moe(w, normed, layer, {.biases = Biases::all}); }

WrittenModel write(Writer& w) {
  return write_decoder(w, {.attention = attention,
                           .moe = moe,
                           .feed_forward = feed_forward,
                           .norm = write_layer_norm,
                           .embedding = embedding});
}

}  // namespace

constinit const ArchitectureCode gpt2_code = {.write = write, .moe = moe};

}  // namespace plait::architectures
