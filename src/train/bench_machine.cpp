#include "train/bench_machine.h"

namespace plait {

MachineBench bench_machine(int rank, wire::World& world, MachineRequest request) {
  GroupClock clock(rank, world);
  int done = 0;
  const int all = num_parts(world.size(), request.messages) + num_parts(request.compute) + 1;
  const auto begin = [&](const std::string& what) {
    if (rank == 0 && request.progress) request.progress(what, done, all);
    ++done;
  };
  request.messages.begin = request.compute.begin = begin;
  MachineBench bench{.measured = measure_messages(world, clock, request.messages)};
  measure_compute(clock, request.compute, bench.measured);
  bench.measured.hand_over = hand_over(clock, world, request.compute.repeats);
  begin("copies");
  if (request.messages.per_node >= 2) bench.copies = compare_with_copies(world, clock, request.copies);
  return bench;
}

}  // namespace plait
