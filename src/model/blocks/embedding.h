// Ids to rows of a matrix [V, D], V sharded over tp; the same matrix may be the head's.
#pragma once
#include "model/writer.h"

namespace plait {

Parameter token_embedding(const Writer& w);

// Of the leaf ids, [T, D] as tokens are held between blocks.
ValueId write_embedding(Writer& w);

// Of the positions of tokens, which a data leaf `positions` [T] says: what is added to the embedding.
ValueId write_positions(Writer& w);

}  // namespace plait
