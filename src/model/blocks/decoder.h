// The decoder after Llama: embedding; layers of a norm, attention, a norm, a feed-forward or experts; a norm, the head.
#pragma once
#include "model/architectures/code.h"
#include "model/blocks/embedding.h"

namespace plait {

// Blocks of those after Llama. A norm has the parameters `name`.weight .., of a layer or, -1, of none.
ValueId write_rms_norm_of(Writer& w, ValueId x, int64_t layer, const std::string& name);
ValueId write_plain_feed_forward(Writer& w, ValueId normed, int64_t layer);

// What architectures differ in. `normed`: [T, D] as tokens are held between blocks; the results too.
struct DecoderBlocks {
  ValueId (*attention)(Writer& w, ValueId normed, int64_t layer);
  MoeTerms (*moe)(Writer& w, ValueId normed, int64_t layer) = write_moe;
  ValueId (*feed_forward)(Writer& w, ValueId normed, int64_t layer) = write_plain_feed_forward;
  ValueId (*norm)(Writer& w, ValueId x, int64_t layer, const std::string& name) = write_rms_norm_of;
  ValueId (*embedding)(Writer& w) = write_embedding;
};

WrittenModel write_decoder(Writer& w, const DecoderBlocks& blocks);

}  // namespace plait
