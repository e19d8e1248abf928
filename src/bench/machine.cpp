#include "bench/machine.h"

#include "bench/overheads.h"

namespace plait {

MachineBench bench_machine(int rank, wire::World& world, MachineRequest request) {
  GroupClock clock(rank, world);
  int done = 0;
  const int all = num_parts(world.size(), request.messages) + num_parts(request.compute) + 2;
  const auto begin = [&](const std::string& what) {
    if (rank == 0 && request.progress) request.progress(what, done, all);
    ++done;
  };
  request.messages.begin = request.compute.begin = begin;
  MachineBench bench{.measured = measure_messages(world, clock, request.messages)};
  measure_compute(clock, request.compute, bench.measured);
  begin("layers, for what their messages cost more");
  bench.machine = fitted(bench.measured);
  measure_overheads(clock, world, request.messages.per_node, bench.machine);
  begin("copies");
  if (request.messages.per_node >= 2) bench.copies = compare_with_copies(world, clock, request.copies);
  return bench;
}

}  // namespace plait
