// The rank boundary: runs one body per rank, each in a thread of its own, and turns the first failure of any of them
// into one exception that names the rank; or, where a launcher started the ranks as processes, the body of this
// process's rank over MPI. Everything that computes in parallel runs inside.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>

#include "base/launch.h"
#include "wire/local.h"

namespace plait::wire {

using plait::launched, plait::launched_rank, plait::launched_size;

// What a rank threw, with its name in front: "rank 3 (tp 1, dp 1, ep 1): ...".
struct RankFailure : std::runtime_error {
  RankFailure(int rank, const std::string& what, std::string report)
      : std::runtime_error(what), rank(rank), report(std::move(report)) {}
  int rank;
  std::string report;  // several lines: what all ranks were doing
};

// Runs body(rank, world) for every rank and returns when all have returned. Every rank's thread computes with
// options.threads threads. When one throws, the others end at their next collective, and the first true cause is
// thrown here: an InputError as it was, anything else as RankFailure. A rank that has not come back options.timeout
// after a failure is left behind (its thread keeps what it was given): the process should end then.
//
// Under a launcher that started options.ranks processes each of them runs the body once, for its own rank; so bodies
// give things to one another through the world alone. Any failure there ends all processes, with a report on standard
// error and a non-zero code. InputError when the launcher started another number of ranks, unless options.ranks is 1:
// then every process runs that rank for itself.
void run_ranks(const LocalOptions& options, std::function<void(int rank, World& world)> body);

}  // namespace plait::wire
