// Everything that a plan wants to know of a machine, measured by all its ranks.
#pragma once
#include "bench/collectives.h"
#include "bench/compute.h"

namespace plait {

struct MachineRequest {
  CollectivesRequest messages;
  ComputeRequest compute;
  std::vector<int64_t> copies = {int64_t{1} << 20, int64_t{4} << 20, int64_t{16} << 20};  // bytes, beside memcpy
  // Told at rank 0 before each part: what it is, and how many of all parts are done.
  std::function<void(const std::string& what, int done, int all)> progress = {};
};

struct MachineBench {
  Measured measured;
  Machine machine;               // that follows from it, with what layers told besides
  std::vector<CopyTurn> copies;  // none where nodes have one rank
};

// Every rank calls it and gets the same.
MachineBench bench_machine(int rank, wire::World& world, MachineRequest request);

}  // namespace plait
