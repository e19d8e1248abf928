// From tokens to logits of the vocabulary, V sharded over tp, and to the loss.
#pragma once
#include "model/writer.h"

namespace plait {

// Of the last norm, [T, D] as tokens are held between blocks: logits [T, V].
ValueId write_head(Writer& w, ValueId normed);

// The loss of logits [T, V]: complete on all ranks. Three numbers a token cross tp.
ValueId write_nll(Writer& w, ValueId logits);

}  // namespace plait
