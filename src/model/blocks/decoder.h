// The decoder after Llama: embedding; layers of a norm, attention, a norm, a feed-forward or experts; a norm, the head.
#pragma once
#include "model/architectures/code.h"

namespace plait {

// What architectures differ in. `normed`: [T, D] as tokens are held between blocks; the result too.
struct DecoderBlocks {
  ValueId (*attention)(Writer& w, ValueId normed, int64_t layer);
  MoeTerms (*moe)(Writer& w, ValueId normed, int64_t layer) = write_moe;
};

WrittenModel write_decoder(Writer& w, const DecoderBlocks& blocks);

}  // namespace plait
