// What a wire is asked to do with the ranks of this process.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>

#include "launch/rank_options.h"
#include "wire/group.h"

namespace plait::wire {

using launch::RankOptions;

using RankBody = std::function<void(int rank, World& world)>;

// What a rank threw, with its name in front: "rank 3 (tp 1, dp 1, ep 1): ...".
struct RankFailure : std::runtime_error {
  RankFailure(int rank, const std::string& what, std::string report)
      : std::runtime_error(what), rank(rank), report(std::move(report)) {}
  int rank;
  std::string report;  // several lines: what all ranks were doing
};

}  // namespace plait::wire
