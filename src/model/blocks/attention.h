// Causal attention, with rotary positions where they are not embedded, from the residual stream's norm back to it.
#pragma once
#include "model/writer.h"

namespace plait {

// What architectures do beside the products. Where a bias is added; norms of queries and keys before they are rotated:
// of each head alone, or one over all heads of a token.
struct AttentionStyle {
  enum class Biases { none, inputs, all } biases = Biases::none;
  enum class HeadNorm { none, each, over_all } norm = HeadNorm::none;
  enum class Positions { rotary, embedded } positions = Positions::rotary;  // embedded: added to the tokens already
};

// `normed`: [T, D] as tokens are held between blocks; the result too.
ValueId write_attention(Writer& w, ValueId normed, int64_t layer, AttentionStyle style = {});

}  // namespace plait
