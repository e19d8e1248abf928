// RMSNorm: every token by the root of its mean square, times a gain.
#pragma once
#include "model/writer.h"

namespace plait {

// Of a norm of tokens as they are held between blocks: [D], ones.
Parameter gain(const Writer& w, const std::string& name);

ValueId write_rms_norm(Writer& w, ValueId x, const Parameter& gain);

}  // namespace plait
