// `plait show CONFIG`: the training step as a typed schedule, one step a line.
#include <fmt/format.h>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "base/config.h"
#include "schedule/text.h"
#include "train/trainer.h"

namespace plait {

int show_app(Arguments arguments) {
  std::string path;
  std::vector<std::string> overrides;
  CommandLine line("show", "Prints the training step of a config as a typed schedule");
  line.config(path, overrides);
  if (!line.parse(arguments)) return 0;
  const RunShape shape = run_shape(ready_config(path, overrides));
  fmt::print("{}", print(build_step(shape.mesh, shape.sizes, shape.optimizer, shape.num_micro).schedule));
  return 0;
}

}  // namespace plait
