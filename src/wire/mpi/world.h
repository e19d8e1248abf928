// The world of a rank that is a process of its own: groups within a node share memory, others send over MPI.
#pragma once
#include "launch/limits.h"
#include "wire/mpi/runtime.h"
#include "wire/rank_body.h"

namespace plait::wire {

class MpiWorld final : public World {
 public:
  // REQUIRES options.ranks as the launcher started. Both must outlive the world's groups.
  MpiWorld(const RankOptions& options, MpiRuntime& mpi) : options_(options), mpi_(mpi) {}

  int size() const override { return mpi_.size(); }
  int ranks_here() const override { return 1; }
  std::shared_ptr<Group> group(int rank, std::vector<int> members, Caller caller = {}) override;
  at::Tensor memory(int64_t bytes) override;
  RankBoard& board(int rank) override { return mpi_.board(rank); }
  void fail() override { ended_ = true; }

 private:
  const RankOptions& options_;
  MpiRuntime& mpi_;
  std::atomic<bool> ended_ = false;
  int cores_ = launch::processors_of_launcher().usable();  // of the node
};

}  // namespace plait::wire
