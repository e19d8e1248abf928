// OLMoE: a norm over all heads of a query or key, which may be clipped.
#include "model/blocks/attention.h"
#include "model/blocks/decoder.h"

namespace plait::architectures {
namespace {

ValueId attention(Writer& w, ValueId normed, int64_t layer) {
  using enum AttentionStyle::Biases;
  return write_attention(w, normed, layer,
                         {.biases = w.sizes.attention_bias ? all : none, .norm = AttentionStyle::HeadNorm::over_all});
}

WrittenModel write(Writer& w) { return write_decoder(w, {.attention = attention}); }

}  // namespace

constinit const ArchitectureCode olmoe_code = {.write = write, .moe = write_moe};

}  // namespace plait::architectures
