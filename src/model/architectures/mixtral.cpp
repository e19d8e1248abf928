// Llama, Mistral and Mixtral.
#include "model/blocks/attention.h"
#include "model/blocks/decoder.h"

namespace plait::architectures {
namespace {

ValueId attention(Writer& w, ValueId normed, int64_t layer) {
  using enum AttentionStyle::Biases;
  return write_attention(w, normed, layer, {.biases = w.sizes.attention_bias ? all : none});
}

WrittenModel write(Writer& w) { return write_decoder(w, {.attention = attention}); }

}  // namespace

constinit const ArchitectureCode mixtral_code = {.write = write, .moe = write_moe};

}  // namespace plait::architectures
