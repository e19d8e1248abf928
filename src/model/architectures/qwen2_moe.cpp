// Qwen2-MoE: biases of queries, keys and values, and shared experts with a gate of their own.
#include "model/blocks/attention.h"
#include "model/blocks/decoder.h"

namespace plait::architectures {
namespace {

ValueId attention(Writer& w, ValueId normed, int64_t layer) {
  using enum AttentionStyle::Biases;
  return write_attention(w, normed, layer, {.biases = inputs});
}

MoeTerms moe(Writer& w, ValueId normed, int64_t layer) {
  return write_moe(w, normed, layer, {.shared = SharedExperts::gated});
}

WrittenModel write(Writer& w) { return write_decoder(w, {.attention = attention, .moe = moe}); }

}  // namespace

constinit const ArchitectureCode qwen2_moe_code = {.write = write, .moe = moe};

}  // namespace plait::architectures
