// `plait generate CHECKPOINT --prompt TEXT`: goes on from the prompt, printing as it goes.
#include <fmt/format.h>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "train/generate.h"

namespace plait {

int generate_app(Arguments arguments) {
  std::string checkpoint;
  GenerateOptions options;
  int64_t seed = 1;
  CommandLine line("generate", "Goes on from a prompt with the model of a checkpoint");
  line.positional("CHECKPOINT", checkpoint, "a run's folder (its latest checkpoint) or one step-... folder in it");
  line.option("--prompt", options.prompt, "the text to go on from");
  line.option("--tokens", options.tokens, "how many to add (200)");
  line.option("--temperature", options.temperature, "0 takes the most probable token (0.8)");
  line.option("--seed", seed, "of the draws (1)");
  if (!line.parse(arguments)) return 0;
  options.seed = static_cast<uint64_t>(seed);
  options.piece = [](const std::string& piece) {
    fmt::print("{}", piece);
    std::fflush(stdout);
  };
  generate(checkpoint, options);
  fmt::print("\n");
  return 0;
}

}  // namespace plait
