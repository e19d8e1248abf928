// `plait import HF_DIR OUT` and `plait export CHECKPOINT HF_DIR`: models of transformers, in and out.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/room_here.h"
#include "base/errors.h"
#include "base/stop.h"
#include "base/units.h"
#include "hub/transfer.h"

namespace plait {
namespace {

// A line that is written over every second, on a terminal; elsewhere a line every ten seconds.
hub::Progress progress(const char* what) {
  const bool terminal = isatty(STDOUT_FILENO);
  const auto every = std::chrono::seconds(terminal ? 1 : 10);
  return [=, told = std::chrono::steady_clock::now()](int64_t done, int64_t all) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now - told < every) return;
    told = now;
    fmt::print("{}{}: {} of {}{}", terminal ? "\r\033[K" : "", what, human_bytes(static_cast<double>(done)),
               human_bytes(static_cast<double>(all)), terminal ? "\r" : "\n");
    std::fflush(stdout);
  };
}

}  // namespace

int import_app(Arguments arguments) {
  hub::Import plan;
  CommandLine line("import", "Makes a run's folder of a model in the form of Hugging Face's transformers");
  line.positional("HF_DIR", plan.from, "a folder with config.json and safetensors");
  line.positional("OUT", plan.to,
                  "a new folder: a checkpoint, config.toml to start from, and what the model came with");
  line.option("--experts", plan.upcycling.experts, "of a dense model: as many copies of each feed-forward", kFromZero);
  line.option("--top-k", plan.upcycling.top_k, "with --experts: experts that each token goes to");
  line.option("--noise", plan.upcycling.noise, "with --experts: what they differ by, in deviations", Reals{.most = 10});
  if (!line.parse(arguments)) return 0;
  if (plan.upcycling.experts > 0 && plan.upcycling.top_k > plan.upcycling.experts)
    input_error("--top-k {} is more than --experts {}", plan.upcycling.top_k, plan.upcycling.experts);
  const stop::Signals signals(stop::Signals::Repeats::end_at_once);
  take_cores_here();
  plan.tell = [](const std::string& note) { fmt::print("{}\n", note); };
  plan.progress = progress("imported");
  hub::import_model(plan);
  fmt::print("{0} holds the model of {1}: plait train {0}/config.toml train.init={0} data.path=TEXT log.dir=RUN\n",
             plan.to, plan.from);
  return 0;
}

int export_app(Arguments arguments) {
  hub::Export plan;
  std::string shard = "none";
  CommandLine line("export", "Writes the model of a checkpoint in the form of Hugging Face's transformers");
  line.positional("CHECKPOINT", plan.from, "a run's folder (its latest checkpoint) or one step-... folder in it");
  line.positional("HF_DIR", plan.to, "a new folder");
  line.option("--dtype", plan.dtype, "float64, float32, float16 or bfloat16; else as it was published");
  line.option("--shard-size", shard, "most bytes of a file, as 5GB; none: one file");
  if (!line.parse(arguments)) return 0;
  if (shard != "none") {
    const auto bytes = parse_bytes(shard);
    if (!bytes || *bytes <= 0) input_error("--shard-size {}: expected bytes as 5GB or 500MiB, or none", shard);
    plan.shard_bytes = *bytes;
  }
  const stop::Signals signals(stop::Signals::Repeats::end_at_once);
  take_cores_here();
  plan.progress = progress("exported");
  hub::export_model(plan);
  fmt::print("{} holds the model\n", plan.to);
  return 0;
}

}  // namespace plait
