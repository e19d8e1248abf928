// `plait bench WHAT`: measurements that compare, in one run and in turns, so that they mean something on any machine.
#include <fmt/format.h>

#include "apps/benches.h"
#include "apps/command_line.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/machine_speed.h"
#include "bench/step.h"
#include "config/config.h"
#include "launch/launch.h"
#include "launch/limits.h"
#include "tune/schedule_choice.h"

namespace plait {
namespace {

// Large enough that the products dominate: 105M parameters, of which 30M are active for a token.
constexpr const char* kStep = R"([model]
vocab_size = 512
hidden_size = 512
num_hidden_layers = 4
num_attention_heads = 8
tie_word_embeddings = false
[moe]
every = 1
num_experts = 8
num_experts_per_tok = 2
moe_intermediate_size = 2048
[train]
batch_size = 8
seq_length = 256
)";

struct StepRequest {
  std::string config;
  std::vector<std::string> overrides;
  int64_t repeats = 10, slowest = 0;
  bool json = false;
};

struct StepNumbers {
  double tokens_per_s, gflops, peak_gflops, ratio;
};

StepNumbers numbers(const Config& config, const StepBench& bench) {
  const int threads = static_cast<int>(num_ranks(config) * config.mesh.threads);
  const double cores = launch::usable_cores();
  return {.tokens_per_s = 1e3 * static_cast<double>(config.train.batch_size * config.train.seq_length) / bench.step_ms,
          .gflops = bench.product_flops / bench.step_ms / 1e6,
          .peak_gflops = register_flops(static_cast<int>(std::min<double>(threads, cores))) / 1e9,
          .ratio = bench.products_ms / bench.step_ms};
}

std::string in_ms(double value) { return fmt::format("{:.2f}", value); }

void print_slowest(const StepBench& bench, int64_t most) {
  Table table({"slowest steps", "ms", "own thread", "share"});
  for (size_t i = 0; i < bench.steps.size() && i < static_cast<size_t>(most); ++i) {
    const KindTime& k = bench.steps[i];
    table.row({k.kind, in_ms(k.ms), in_ms(k.cpu_ms), percent(k.ms / bench.step_ms)});
  }
  fmt::print("{}\n", table.str());
}

void print_step(const Config& config, const StepBench& bench) {
  Table table({"where the time goes", "steps", "ms", "own thread", "share"});
  double listed = 0;
  for (const KindTime& k : bench.kinds) {
    listed += k.ms;
    table.row({k.kind, std::to_string(k.steps), in_ms(k.ms), in_ms(k.cpu_ms), percent(k.ms / bench.step_ms)});
  }
  table.row({"outside the steps", "", in_ms(bench.step_ms - listed), "", percent(1 - listed / bench.step_ms)});
  table.row({"the whole step", "", in_ms(bench.step_ms), in_ms(bench.step_cpu_ms), "100.0%"});
  fmt::print("{}\n", table.str());
  const StepNumbers n = numbers(config, bench);
  fmt::print("products alone {:.2f} ms (median {:.2f}), the whole step {:.2f} ms (median {:.2f}): products/step {}\n",
             bench.products_ms, bench.products_median_ms, bench.step_ms, bench.step_median_ms, percent(n.ratio));
  fmt::print("processor time of the first thread: products {:.2f} ms, step {:.2f} ms: {}\n", bench.products_cpu_ms,
             bench.step_cpu_ms, percent(bench.products_cpu_ms / bench.step_cpu_ms));
  fmt::print("attention's products over the keys that 64 rows see; {} of the products' work by our own kernels\n",
             percent(bench.own_share));
  fmt::print("{:.0f} tokens/s; {:.0f} GF/s of products in a step, {:.0f} alone; registers alone {:.0f}\n",
             n.tokens_per_s, n.gflops, bench.product_flops / bench.products_ms / 1e6, n.peak_gflops);
}

int bench_step(Arguments arguments) {
  StepRequest request;
  CommandLine line("bench step", "A training step beside its matrix products alone, in turns; random tokens");
  line.option("--config", request.config, "a TOML file instead of the default sizes")
      .option("--repeats", request.repeats, "of each; the fastest counts")
      .option("--slowest", request.slowest, "lists so many single steps of the schedule", kFromZero)
      .flag("--json", request.json, "one line for programs")
      .rest("KEY=VALUE", request.overrides, "section.key=value");
  if (!line.parse(arguments)) return 0;
  const Planned run = bench_config(request.config, {"bench step", kStep}, request.overrides);
  const Config& config = run.config;
  const StepBench bench = bench_step(run, request.repeats);
  if (request.json) {
    const StepNumbers n = numbers(config, bench);
    JsonLine json;
    json.add("step_ms", bench.step_ms).add("products_ms", bench.products_ms).add("median_ms", bench.step_median_ms);
    json.add("tokens_per_s", n.tokens_per_s).add("gflops", n.gflops).add("products_share", n.ratio);
    fmt::print("{}\n", json.str());
    return 0;
  }
  fmt::print("{} rank{} with {} thread{} each; {} x {} tokens a step; {} repeats\n\n", num_ranks(config),
             num_ranks(config) == 1 ? "" : "s", config.mesh.threads, config.mesh.threads == 1 ? "" : "s",
             config.train.batch_size, config.train.seq_length, request.repeats);
  if (request.slowest > 0) print_slowest(bench, request.slowest);
  print_step(config, bench);
  return 0;
}

struct Bench {
  std::string_view name, summary;
  int (*run)(Arguments arguments);
};

constexpr Bench kBenches[] = {
    {"step", "a training step beside its matrix products alone", bench_step},
    {"layer", "one MoE layer, in every family and with every gate, beside others", bench_layer},
    {"grid", "MoE layers of many shapes and layouts, in every family", bench_grid},
    {"overlap", "how much of slow messages hides behind computing", bench_overlap},
    {"collectives", "messages, products and memory of this machine, as a file for plans", bench_collectives},
    {"memory", "the memory of a step: told, counted and resident", bench_memory},
    {"optimizer", "the AdamW step beside the memory bandwidth", bench_optimizer},
};

}  // namespace

namespace {

// The others add up what all ranks measured in the memory of one process.
bool takes_a_launcher(std::string_view bench) { return bench == "grid" || bench == "collectives"; }

int run(const Bench& bench, Arguments arguments) {
  if (this_launch().ranks > 1 && !takes_a_launcher(bench.name))
    input_error("bench {} runs its ranks as threads of one process: start it without mpirun or srun", bench.name);
  return bench.run(arguments);
}

}  // namespace

int bench_app(Arguments arguments) {
  std::vector<std::string> names;
  for (const Bench& bench : kBenches) {
    if (!arguments.empty() && arguments[0] == bench.name) return run(bench, arguments.subspan(1));
    names.emplace_back(bench.name);
  }
  const bool asked = !arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h");
  if (!asked && !arguments.empty()) input_error("bench {}: there are {}", arguments[0], join(names, ", "));
  fmt::print("plait bench WHAT ...\n\n");
  for (const Bench& bench : kBenches) fmt::print("  {:<12}{}\n", bench.name, bench.summary);
  return asked ? 0 : 2;
}

}  // namespace plait
