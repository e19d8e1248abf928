// The rank boundary: runs one body per rank, each in a thread of its own, and turns the first failure of any of them
// into one exception that names the rank. Everything that computes in parallel runs inside.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>

#include "wire/local.h"

namespace plait::wire {

// What a rank threw, with its name in front: "rank 3 (tp 1, dp 1, ep 1): ...".
struct RankFailure : std::runtime_error {
  RankFailure(int rank, const std::string& what) : std::runtime_error(what), rank(rank) {}
  int rank;
};

// Runs body(rank, world) for every rank and returns when all have returned. Every rank's thread computes with
// options.threads threads. When one throws, the others end at their next collective, and the first true cause is
// thrown here: an InputError as it was, anything else as RankFailure. A rank that has not come back options.timeout
// after a failure is left behind (its thread keeps what it was given): the process should end then.
void run_ranks(const LocalOptions& options, std::function<void(int rank, World& world)> body);

}  // namespace plait::wire
