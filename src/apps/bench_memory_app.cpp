// `plait bench memory`: what steps of a config and of its variants need, told in advance, counted by the buffers, and
// resident; each variant in a process of its own, so that what one leaves does not count for the next.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "apps/benches.h"
#include "apps/command_line.h"
#include "base/errors.h"
#include "base/table.h"
#include "base/units.h"
#include "bench/memory.h"
#include "bench/ted_tables.h"
#include "config/config.h"

namespace plait {
namespace {

// States fill a good part of a small machine: 211M parameters, most of them of experts, over 4 ranks.
constexpr const char* kModel = R"([model]
vocab_size = 512
hidden_size = 512
num_hidden_layers = 8
num_attention_heads = 8
tie_word_embeddings = false
[moe]
every = 2
num_experts = 16
num_experts_per_tok = 2
moe_intermediate_size = 2048
[mesh]
ep = 2
dp = 4
[train]
batch_size = 16
seq_length = 256
)";

struct Variant {
  std::string name;
  std::vector<std::string> overrides;
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"everything on every rank", {}},
      {"made again, messages too", {"memory.recompute=full", "memory.keep_moves=none"}},
      {"made again, messages kept", {"memory.recompute=full"}},
      {"states shared out", {"memory.zero=1"}},
      {"states shared out, made again, messages kept", {"memory.zero=1", "memory.recompute=full"}},
      {"parameters too", {"memory.zero=3", "memory.recompute=full"}},
  };
  return all;
}

// What `measure` finds, in a child process. Its failure has been printed there.
MemoryBench apart(const auto& measure) {
  int ends[2];
  expects(pipe(ends) == 0, "bench memory: no pipe");
  std::fflush(stdout);
  const pid_t child = fork();
  expects(child >= 0, "bench memory: no process");
  if (child == 0) {
    try {
      const MemoryBench found = measure();
      _exit(write(ends[1], &found, sizeof(found)) == static_cast<ssize_t>(sizeof(found)) ? 0 : 1);
    } catch (const std::exception& error) {
      fmt::print(stderr, "plait: {}\n", error.what());
      _exit(1);
    }
  }
  close(ends[1]);
  MemoryBench found;
  const bool whole = read(ends[0], &found, sizeof(found)) == static_cast<ssize_t>(sizeof(found));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!whole) throw std::runtime_error("bench memory: a variant failed");
  return found;
}

std::vector<std::string> row(const std::string& name, const MemoryBench& b) {
  const MemoryUse &told = b.step.predicted, &counted = b.step.measured;
  return {name,
          mib(told.states()),
          mib(told.of(MemoryClass::gradients)),
          mib(told.of(MemoryClass::kept)),
          mib(told.total()),
          mib(counted.total()),
          mib(b.step.all_predicted),
          mib(b.step.all_measured),
          mib(b.resident),
          fmt::format("{:.0f}", b.ms)};
}

}  // namespace

int bench_memory(Arguments arguments) {
  std::string path;
  std::vector<std::string> overrides;
  int64_t steps = 2;
  bool papers = false;
  CommandLine line("bench memory", "The memory of training steps: told in advance, counted, resident; random tokens");
  line.option("--config", path, "a TOML file instead of the default sizes")
      .option("--steps", steps, "of each variant")
      .flag("--papers", papers, "runs nothing: the memory results of DeepSpeed-TED by its own accounting")
      .rest("KEY=VALUE", overrides, "section.key=value");
  if (!line.parse(arguments)) return 0;
  if (papers) {
    fmt::print("{}", ted_tables());
    return 0;
  }
  Table table({"MiB", "states", "gradients", "kept", "told", "counted", "all ranks told", "counted", "resident", "ms"});
  for (const Variant& variant : variants()) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), variant.overrides.begin(), variant.overrides.end());
    const Planned run = bench_config(path, {"bench memory", kModel}, all);
    table.row(row(variant.name, apart([&] { return bench_memory(run, steps); })));
  }
  fmt::print("a rank's bytes at its peak, then all ranks together, then by how much the process grew\n\n{}",
             table.str());
  return 0;
}

}  // namespace plait
