// A world of ranks in which rank 1 goes wrong in a chosen way, for tests of what the others then say and do:
//   wire_faults throws|late|more|killed|stopped|memory
// Threads of this process, or what a launcher started.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "launch/board.h"
#include "launch/launch.h"
#include "wire/ranks.h"

namespace plait::wire {
namespace {

constexpr int kSteps = 20, kFault = 12;  // steps; the one in which rank 1 goes wrong
constexpr Seconds kTimeout{2};

void go_wrong(const std::string& how) {
  if (how == "throws") throw std::runtime_error("no experts left");
  if (how == "late") std::this_thread::sleep_for(3 * kTimeout);
  if (how == "killed") std::raise(SIGKILL);
  if (how == "stopped") std::raise(SIGSTOP);
  if (how == "memory") at::zeros({int64_t{1} << 50}, at::kDouble);
}

void walk(const std::string& how, int rank, World& world) {
  const auto all = everyone(world, rank), pair = world.group(rank, {rank / 2 * 2, rank / 2 * 2 + 1});
  RankBoard& board = world.board(rank);
  const at::Tensor x = at::zeros({1000}, at::kFloat);
  const at::Tensor large = world.memory(int64_t{1} << 20).zero_().view(at::kFloat);  // that all reach where it lies
  for (int step = 1; step <= kSteps; ++step) {
    board.where.set(fmt::format("training step {}", step));
    board.lanes[0].begin_step("step 7 sum -> %layers.3.moe.y");
    pair->all_reduce({&x, 1});
    board.lanes[0].end_step();
    if (rank == 1 && step == kFault) go_wrong(how);
    board.lanes[0].begin_step("step 8 leave -> %norm");
    all->all_reduce({&large, 1});
    board.lanes[0].end_step();
  }
  if (rank == 1 && how == "more") pair->all_reduce({&x, 1});
}

int run(const std::string& how) {
  RankOptions options{.ranks = this_launch().launched() ? this_launch().ranks : 4, .timeout = kTimeout};
  options.name = [](int rank) { return fmt::format("rank {} (tp {}, dp {})", rank, rank % 2, rank / 2); };
  try {
    run_ranks(options, [&](int rank, World& world) { walk(how, rank, world); });
  } catch (const RankFailure& failure) {
    fmt::print(stderr, "plait: {}\n{}", failure.what(), failure.report);
    return 1;
  }
  fmt::print("all ranks have ended\n");
  return 0;
}

}  // namespace
}  // namespace plait::wire

int main(int argc, char** argv) { return plait::wire::run(argc > 1 ? argv[1] : "none"); }
