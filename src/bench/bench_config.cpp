#include "bench/bench_config.h"

#include "base/errors.h"
#include "launch/limits.h"
#include "train/memory.h"
#include "tune/schedule_choice.h"

namespace plait {

namespace {

// A bench runs its ranks as threads of one process.
Planned that_fits(Planned run) {
  const MemoryFit fit = memory_fit(run, {Launch().ranks_here(num_ranks(run.config)), launch::memory_limits()});
  if (fit.is == MemoryFit::Is::beyond_limit || fit.is == MemoryFit::Is::beyond_here) throw InputError(fit.line);
  return run;
}

}  // namespace

Planned bench_config(const std::string& path, const BenchSizes& sizes, const std::vector<std::string>& overrides) {
  if (!path.empty()) return that_fits(agreed_schedule(ready_config(path, overrides)).run);
  const Config config = resolve(parse_config(sizes.toml, "the sizes of " + sizes.bench, overrides));
  validate(config);
  return that_fits(agreed_schedule(config).run);
}

}  // namespace plait
