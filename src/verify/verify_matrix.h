// The configs by which a model is verified everywhere: each family at ten layouts of up to 16 ranks, with and without a
// capacity.
#pragma once
#include <string>
#include <vector>

#include "config/config.h"

namespace plait {

struct VerifyCase {
  const FamilySpec* family;
  int64_t tp = 1, esp = 1, ep = 1, dp = 1;
  bool padded = false;
  Config config;        // resolved
  std::string refusal;  // why no such run exists; empty: it does

  std::string text() const;  // "s2 on 8 ranks (tp 2, dp 4; esp 2, ep 2), dropless"
};

// All of them, by family. `config` is resolved; it says everything but family, mesh and capacity. Where it has no
// capacity, the padded cases get one of a fair share, and families that gate copies, which must drop nothing, room for
// every token.
std::vector<VerifyCase> verify_matrix(const Config& config);

}  // namespace plait
