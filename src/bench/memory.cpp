#include "bench/memory.h"

#include <fstream>

#include "base/errors.h"
#include "bench/measure.h"
#include "run/profile.h"
#include "train/loop.h"

namespace plait {
namespace {

// "VmHWM": the most that was ever resident, "VmRSS": what is now.
int64_t resident(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ":")) return std::stoll(line.substr(what.size() + 1)) * 1024;
  input_error("/proc/self/status: no {}: resident memory is measured on Linux only", what);
}

}  // namespace

MemoryBench bench_memory(const Planned& run, int64_t steps) {
  const Config& config = run.config;
  const data::Corpus corpus = bench_corpus(config);
  const int64_t before = resident("VmRSS");
  MemoryBench bench;
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    const RankContext context{rank, &world, dtype_of(config)};
    const RunShape shape = run_shape(run);
    Trainer trainer(config, shape, corpus, context, {RowWatch::tables(build_step(shape).schedule)});
    RowWatch watch(trainer.executor(), context);
    trainer.observe([&](const Span& span) { watch.note(span); });
    const auto group = wire::everyone(*context.world, context.rank);
    Stretch last = together(*group, [&] { trainer.step(0, config.optim.lr); });
    trainer.observe({});
    const MemoryComparison compared = compare_memory(trainer.executor(), watch, context);
    for (int64_t step = 1; step < steps; ++step) last = together(*group, [&] { trainer.step(step, config.optim.lr); });
    if (rank == 0) bench = {.step = compared, .ms = ms(last.end - last.begin)};
  });
  bench.resident = resident("VmHWM") - before;
  return bench;
}

}  // namespace plait
