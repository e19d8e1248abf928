// A world whose messages take longer than they would: for tests of what overlaps with what, and for benches of a
// network that this machine has not.
#pragma once
#include <functional>

#include "wire/local.h"
#include "wire/record.h"

namespace plait::wire {

class SlowWorld final : public World {
 public:
  // How long a member waits after a collective in which it sent so many bytes; `ranks` are the group's.
  using Delay = std::function<Seconds(const std::vector<int>& ranks, double bytes)>;

  SlowWorld(World& world, Delay delay) : world_(world), delay_(std::move(delay)) {}

  int size() const override { return world_.size(); }
  std::shared_ptr<Group> group(int rank, std::vector<int> members, Caller caller = {}) override;
  RankBoard& board(int rank) override { return world_.board(rank); }
  void fail() override { world_.fail(); }

 private:
  World& world_;
  Delay delay_;
};

}  // namespace plait::wire
