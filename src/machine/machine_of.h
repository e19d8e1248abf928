// The machine that a run is planned for.
#pragma once
#include <string>

#include "config/config.h"
#include "machine/machine.h"

namespace plait {

// The file of schedule.machine, or the default machine with the config's nodes.
Machine machine_of(const Config& config);

// The file's text, "" for the default machine. InputError where it cannot be read, or is no machine.
std::string machine_text(const Config& config);

}  // namespace plait
