// Collectives between processes of one node. Tensors that lie in memory which the node shares are read and written
// there, as threads do. Of all others each member writes what it brings into its own two slots, in memory that the
// group shares, a block at a time, and the others read it there.
#pragma once
#include <memory>

#include "wire/node/meeting.h"

namespace plait::wire {

// The memory that a group of so many members shares.
int64_t node_group_bytes(int members);

// Makes the memory ready; one member calls it before any other touches it.
void prepare_node_group(std::byte* memory, int members);

// `memory` outlives the group; a group made later over the same memory goes on where the last one ended. Deadlines and
// mismatches are CommError.
std::shared_ptr<Group> node_group(MemberOptions options, std::byte* memory);

}  // namespace plait::wire
