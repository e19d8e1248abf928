// Causal attention with rotary positions: queries, keys and values by heads (column-parallel), row-parallel output.
#pragma once
#include "model/writer.h"

namespace plait {

// Of the norm, [T, D] as tokens are held between blocks, to what is added to the residual stream.
ValueId write_attention(Writer& w, ValueId normed, int64_t layer);

}  // namespace plait
