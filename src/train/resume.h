// What a run begins with: a checkpoint of its folder, weights of another one, or nothing.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "config/config.h"

namespace plait {

// Whether a run may go on from a checkpoint of another model, text or order of the data.
enum class GoOn { as_it_was, whatever_changed };

using Note = std::function<void(const std::string& line)>;

// The latest of log.dir; nothing: there is none. `text`: the fingerprint of this run's text. What the config says
// otherwise than the checkpoint's is noted; where that changes the model or the order of the data, InputError, which
// names each key with both values, unless it goes on whatever changed.
std::optional<Checkpoint> checkpoint_of(const Config& config, const std::string& text, GoOn go_on, const Note& note);

// Those of train.init: a checkpoint, a run's folder (its latest), or a model.safetensors. What the config says
// otherwise of the model is noted.
std::optional<Checkpoint> weights_of(const Config& config, const Note& note);

}  // namespace plait
