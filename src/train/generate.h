// Text from a checkpoint, token by token, on one rank whatever layout wrote it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "config/catalogue.h"

namespace plait {

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 200;      // to add
  double temperature = 0.8;  // 0: the most probable token
  uint64_t seed = 1;
  const Catalogue& catalogue = built_in();                   // that the config of the run was read with
  std::function<void(const std::string& piece)> piece = {};  // the prompt, then each token as it is made
};

// `checkpoint`: a checkpoint's folder, or a run's folder (its latest). Returns prompt and continuation. InputError for
// a damaged or missing checkpoint.
std::string generate(const std::string& checkpoint, const GenerateOptions& options);

}  // namespace plait
