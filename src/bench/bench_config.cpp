#include "bench/bench_config.h"

#include "tune/schedule_choice.h"

namespace plait {

Planned bench_config(const std::string& path, const BenchSizes& sizes, const std::vector<std::string>& overrides) {
  if (!path.empty()) return agreed_schedule(ready_config(path, overrides)).run;
  const Config config = resolve(parse_config(sizes.toml, "the sizes of " + sizes.bench, overrides));
  validate(config);
  return agreed_schedule(config).run;
}

}  // namespace plait
