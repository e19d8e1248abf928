#include "bench/bench_config.h"

#include "tune/schedule_choice.h"

namespace plait {

Config bench_config(const std::string& path, const BenchSizes& sizes, const std::vector<std::string>& overrides) {
  if (!path.empty()) return agreed_schedule(ready_config(path, overrides)).config;
  const Config config = resolve(parse_config(sizes.toml, "the sizes of " + sizes.bench, overrides));
  validate(config);
  return agreed_schedule(config).config;
}

}  // namespace plait
