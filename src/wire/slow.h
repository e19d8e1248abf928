// A world whose messages take longer than they would: for tests of what overlaps with what, and for benches of a
// network that this machine has not.
#pragma once
#include <functional>

#include "wire/record.h"

namespace plait::wire {

class SlowWorld final : public PassingWorld {
 public:
  // How long a member waits after a collective in which it sent so many bytes; `ranks` are the group's.
  using Delay = std::function<Seconds(const std::vector<int>& ranks, double bytes)>;

  SlowWorld(World& world, Delay delay) : PassingWorld(world), delay_(std::move(delay)) {}

  std::shared_ptr<Group> group(int rank, std::vector<int> members, Caller caller = {}) override;

 private:
  Delay delay_;
};

}  // namespace plait::wire
