// Forward and backward in other numbers of chunks: a model is written with as many parts as the finer pipeline has, and
// the coarser one joins their messages.
#pragma once
#include "model/sizes.h"
#include "passes/differentiate.h"

namespace plait {

// Right after `differentiate`, before other passes.
Differentiated in_chunks(Differentiated d, const ModelSizes& sizes);

// A forward list alone.
Schedule in_chunks(const Schedule& forward, const ModelSizes& sizes);

}  // namespace plait
