// The measurements of `plait bench`, one file each; see apps.h for what such a function does.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "apps/apps.h"
#include "base/config.h"

namespace plait {

// A TOML file, or where none is named the sizes of `bench`; resolved and valid.
struct BenchSizes {
  std::string bench;
  std::string_view toml;
};
Config bench_config(const std::string& path, const BenchSizes& sizes, const std::vector<std::string>& overrides);

int bench_layer(Arguments arguments);
int bench_grid(Arguments arguments);
int bench_overlap(Arguments arguments);
int bench_collectives(Arguments arguments);
int bench_memory(Arguments arguments);
int bench_optimizer(Arguments arguments);

}  // namespace plait
