#include "apps/room_here.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cstdio>

#include "base/errors.h"
#include "launch/limits.h"
#include "train/memory.h"
#include "train/run_shape.h"

namespace plait {
namespace {

void tell(const std::string& line) {
  if (line.empty() || !this_launch().first()) return;
  std::fflush(stdout);
  fmt::print(stderr, "plait: {}\n", line);
}

MemoryFit fit_here(const Planned& run) {
  return memory_fit(run, {this_launch().ranks_here(num_ranks(run.config)), launch::memory_limits()});
}

}  // namespace

void take_cores_here() { at::set_num_threads(std::min(at::get_num_threads(), launch::usable_cores())); }

void tell_idle_keys(const Config& config) { tell(idle_note(config)); }

void expect_threads_here(const Config& config) {
  const Launch launch = this_launch();
  launch.expect_ranks(num_ranks(config));
  launch::expect_threads(rank_options(config), launch.ranks_here(num_ranks(config)));
}

void expect_memory_here(const Planned& run) {
  const MemoryFit fit = fit_here(run);
  if (fit.is == MemoryFit::Is::beyond_limit || fit.is == MemoryFit::Is::beyond_here) throw InputError(fit.line);
  tell(fit.line);
}

void tell_memory(const Planned& run) {
  const MemoryFit fit = fit_here(run);
  if (fit.is == MemoryFit::Is::beyond_limit) throw InputError(fit.line);
  if (fit.is == MemoryFit::Is::beyond_here) return tell("this machine could not run it: " + fit.line);
  tell(fit.line);
}

}  // namespace plait
