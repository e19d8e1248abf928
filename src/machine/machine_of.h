// The machine that a run is planned for.
#pragma once
#include <string>
#include <utility>

#include "config/config.h"
#include "machine/machine.h"

namespace plait {

// The file of schedule.machine, or the default machine with the config's nodes.
Machine machine_of(const Config& config);

// The file's text, "" for the default machine. InputError where it cannot be read, or is no machine.
std::string machine_text(const Config& config);
// The machine of such a text, which may be another rank's.
Machine machine_of(const Config& config, const std::string& text);

// A config and the machine that it is planned for. A config alone is planned for the machine that it names; what runs
// in several processes is told the machine of rank 0.
struct Planned {
  Config config;
  Machine machine;
  Planned() = default;
  Planned(Config alone) : config(std::move(alone)), machine(machine_of(config)) {}
  Planned(Config config, Machine machine) : config(std::move(config)), machine(std::move(machine)) {}
};

}  // namespace plait
