// A machine as a TOML file, written by a measurement or by hand; see the lines at the top of a written one.
#pragma once
#include <string>
#include <string_view>

#include "machine/machine.h"

namespace plait {

// Reads back to an equal machine.
std::string to_toml(const Machine& machine);

// InputError, one line with file and line, for what does not parse, a key that is unknown, missing or of another kind,
// and numbers that no machine has.
Machine parse_machine(std::string_view toml, const std::string& file_name);
Machine read_machine(const std::string& path);

}  // namespace plait
