// `plait config`: every key with its type, default and meaning; `plait config FILE [key=value ...]`: what that comes
// to.
#include <fmt/format.h>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/room_here.h"
#include "base/table.h"
#include "config/config.h"

namespace plait {

int config_app(Arguments arguments) {
  std::string path;
  std::vector<std::string> overrides;
  CommandLine line("config", "Lists every key; with a file, shows the resolved config");
  line.optional_positional("CONFIG", path, "a TOML file").rest("KEY=VALUE", overrides, "wins over the file");
  if (!line.parse(arguments)) return 0;
  if (!path.empty()) {
    const Config config = ready_config(path, overrides, this_launch());
    tell_idle_keys(config);
    fmt::print("{}", config_table(config));
    std::fflush(stdout);
    tell_memory({config, machine_of(config, "")});
    return 0;
  }
  Table table({"key", "type", "default", "meaning"});
  for (const KeyInfo& key : config_keys()) table.row({key.name, key.type, key.default_value, key.meaning});
  fmt::print("{}", table.str());
  return 0;
}

}  // namespace plait
