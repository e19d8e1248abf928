// `plait generate CHECKPOINT --prompt TEXT`: goes on from the prompt, printing as it goes. Bytes that would control a
// terminal are shown to one; a file or another program gets them as they are.
#include <fmt/format.h>
#include <unistd.h>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/room_here.h"
#include "base/text.h"
#include "train/generate.h"

namespace plait {

int generate_app(Arguments arguments) {
  std::string checkpoint;
  GenerateOptions options;
  int64_t seed = 1;
  CommandLine line("generate", "Goes on from a prompt with the model of a checkpoint");
  line.positional("CHECKPOINT", checkpoint, "a run's folder (its latest checkpoint) or one step-... folder in it");
  line.option("--prompt", options.prompt, "the text to go on from");
  line.option("--tokens", options.tokens, "how many to add", kFromZero);
  line.option("--temperature", options.temperature, "0 takes the most probable token", Reals{.most = 1000});
  line.option("--seed", seed, "of the draws", kSeed);
  if (!line.parse(arguments)) return 0;
  options.seed = static_cast<uint64_t>(seed);
  VisiblePieces pieces;
  const bool terminal = isatty(STDOUT_FILENO);
  options.piece = [&](const std::string& piece) {
    fmt::print("{}", terminal ? pieces.add(piece) : piece);
    std::fflush(stdout);
  };
  take_cores_here();
  generate(checkpoint, options);
  fmt::print("{}\n", pieces.end());
  return 0;
}

}  // namespace plait
