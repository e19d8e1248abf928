// The rank boundary: runs one body per rank, each in a thread of its own, and turns the first failure of any of them
// into one exception that names the rank; or, where a launcher started the ranks as processes, the body of this
// process's rank. Everything that computes in parallel runs inside.
#pragma once
#include <memory>
#include <optional>
#include <type_traits>

#include "wire/rank_body.h"

namespace plait::wire {

// Runs body(rank, world) for every rank and returns when all have returned. Every rank's thread computes with
// options.threads threads. When one throws, the others end at their next collective, and the first true cause is
// thrown here: an InputError as it was, anything else as RankFailure. A rank that has not come back options.timeout
// after a failure is left behind (its thread keeps what it was given): the process should end then.
//
// Under a launcher that started options.ranks processes each of them runs the body once, for its own rank; so bodies
// give things to one another through the world alone. Any failure there ends all processes, with a report on standard
// error and a non-zero code. InputError when the launcher started another number of ranks, unless options.ranks is 1:
// then every process runs that rank for itself; and when the system does not let so many threads be started.
void each_rank(const RankOptions& options, RankBody body);

// The same; gives what the body of rank 0 returned, or that of this process's rank.
template <class Body>
auto run_ranks(const RankOptions& options, Body body) {
  using Result = std::invoke_result_t<Body&, int, World&>;
  if constexpr (std::is_void_v<Result>) {
    each_rank(options, std::move(body));
  } else {
    const auto result = std::make_shared<std::optional<Result>>();
    each_rank(options, [result, body = std::move(body)](int rank, World& world) mutable {
      Result mine = body(rank, world);
      if (rank == 0 || world.ranks_here() == 1) result->emplace(std::move(mine));
    });
    return std::move(**result);
  }
}

}  // namespace plait::wire
