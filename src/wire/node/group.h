// Collectives between processes of one node. Tensors that lie in memory which the node shares are read and written
// there, as threads do. Of all others each member writes what it brings into its own two slots, in memory that the
// group shares, a block at a time, and the others read it there.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "launch/board.h"
#include "launch/patience.h"
#include "wire/group.h"

namespace plait::wire {

// The memory that a group of so many members shares.
int64_t node_group_bytes(int members);

// Makes the memory ready; one member calls it before any other touches it.
void prepare_node_group(std::byte* memory, int members);

class NodeMemory;

// What the wire knows of a member, besides the memory that it shares.
struct MemberOptions {
  std::vector<int> ranks = {};  // the members, as ranks of the world
  int member = 0;
  Seconds timeout{300};  // of every wait
  launch::Patience patience;
  std::function<std::string(int)> name = {};  // a rank of the world in words
  LaneBoard* lane = nullptr;                  // where it tells what it does
  const std::atomic<bool>* ended = nullptr;   // set: every wait ends with Abandoned
  std::function<void()> progress = {};        // between looks: what this rank has sent elsewhere goes on
  const NodeMemory* shared = nullptr;         // where its tensors may lie for all to reach; null: nothing is shared
  std::vector<std::byte*> memory_of = {};     // each member's such memory, as this process reaches it
};

// `memory` outlives the group; a group made later over the same memory goes on where the last one ended. Deadlines and
// mismatches are CommError.
std::shared_ptr<Group> node_group(MemberOptions options, std::byte* memory);

}  // namespace plait::wire
