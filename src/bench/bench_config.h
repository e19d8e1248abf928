// What a bench runs with.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine_of.h"

namespace plait {

// A TOML file, or where none is named the sizes of `bench`; resolved and valid.
struct BenchSizes {
  std::string bench;
  std::string_view toml;
};
Planned bench_config(const std::string& path, const BenchSizes& sizes, const std::vector<std::string>& overrides);

}  // namespace plait
