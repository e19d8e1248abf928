// RMSNorm: every token by the root of its mean square, times a gain. LayerNorm: its distance from its mean by its
// deviation, times a gain, plus a bias.
#pragma once
#include "model/writer.h"

namespace plait {

// Of a norm of tokens as they are held between blocks: [D], ones.
Parameter gain(const Writer& w, const std::string& name);

// LayerNorm with the parameters `name`.weight and `name`.bias, of a layer or, -1, of none.
ValueId write_layer_norm(Writer& w, ValueId x, int64_t layer, const std::string& name);

ValueId write_rms_norm(Writer& w, ValueId x, const Parameter& gain);

// Of x [T, N, A], whose N ranks of tp share: one mean over all of a token's elements. The gain is [N, A].
ValueId write_norm_over_heads(Writer& w, ValueId x, const Parameter& gain);

}  // namespace plait
