#include "machine/machine_of.h"

#include "base/files.h"
#include "machine/machine_file.h"

namespace plait {

std::string machine_text(const Config& config) {
  if (config.schedule.machine == "default") return "";
  read_machine(config.schedule.machine);  // or say what is wrong with it
  return read_text(config.schedule.machine);
}

Machine machine_of(const Config& config) {
  if (config.schedule.machine == "default") return default_machine(static_cast<int>(config.mesh.node));
  return read_machine(config.schedule.machine);
}

Machine machine_of(const Config& config, const std::string& text) {
  return text.empty() ? machine_of(config) : parse_machine(text, config.schedule.machine);
}

}  // namespace plait
