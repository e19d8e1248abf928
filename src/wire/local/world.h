// The wire between ranks that are threads of one process: collectives over shared memory, members copy and sum directly
// from each other's buffers. Works with more ranks than cores: a waiting rank soon sleeps.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launch/limits.h"
#include "wire/local/meeting.h"
#include "wire/rank_body.h"

namespace plait::wire {

class LocalWorld final : public World {
 public:
  explicit LocalWorld(RankOptions options);

  int size() const override { return options_.ranks; }
  int ranks_here() const override { return size(); }

  // Called by each member, from its own thread. REQUIRES: members are distinct ranks of the world, `rank` among them.
  // The world must outlive its groups.
  std::shared_ptr<Group> group(int rank, std::vector<int> members, Caller caller = {}) override;
  at::Tensor memory(int64_t bytes) override { return own_memory(bytes); }
  RankBoard& board(int rank) override { return boards_[rank]; }

  // What every rank is doing; see launch/board.h.
  std::string report() const;

  // The waits end with Abandoned.
  void fail() override;

  std::string name(int rank) const { return options_.name_of(rank); }

 private:
  struct Key {
    std::vector<int> members;
    int copy;  // 0 for the first group of these members, 1 for the second, ...
    auto operator<=>(const Key&) const = default;
  };

  std::shared_ptr<Meeting> meeting(const Key& key, Caller caller);
  std::string waiting(int rank) const;

  RankOptions options_;
  std::vector<RankBoard> boards_;
  mutable std::mutex mutex_;  // over what follows; never held while a member waits or copies
  std::map<Key, std::shared_ptr<Meeting>> meetings_;
  std::vector<std::map<std::vector<int>, int>> copies_;  // per rank: how many groups of these members it has built
  bool failed_ = false;
  int cores_ = launch::usable_cores();
};

}  // namespace plait::wire
