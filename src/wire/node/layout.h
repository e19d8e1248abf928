// How the memory that the members of a node group share is divided: a door, and for each member its counters, two posts
// and two slots.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "wire/group.h"

namespace plait::wire {

inline constexpr int64_t kSlot = 512 << 10;   // bytes of a block: two of each member stay in the cache
inline constexpr int64_t kPostBytes = 4096;   // a message up to this size comes with the post
inline constexpr int64_t kMostPlaces = 4096;  // values of a message that go directly

// One member's side of one collective; after it in memory: send_rows[n], receive_rows[n].
struct NodePost {
  Collective kind;
  int64_t bytes;       // that this member brings
  uint64_t signature;  // of what must be equal at all members
  int64_t rounds;      // blocks that this member needs to send all
  int64_t least;       // bytes of a message that go directly for this member, if all members' values can be reached
  int64_t places;      // values that lie in its shared memory, at `place`; -1: not all of them lie there
  alignas(64) std::byte copy[kPostBytes];
  int64_t place[kMostPlaces];
};

// Counters only grow, and wrap.
struct alignas(64) NodeSeat {
  std::atomic<uint32_t> arrived;  // collectives that it has come to
  std::atomic<uint32_t> filled;   // rounds whose block it has written
  std::atomic<uint32_t> drained;  // rounds whose blocks it has read
};

struct alignas(64) NodeDoor {
  std::atomic<uint32_t> event;  // changes with every counter
  std::atomic<uint32_t> sleepers;
};

inline bool reached(uint32_t counter, uint32_t wanted) { return static_cast<int32_t>(counter - wanted) >= 0; }

inline int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Where everything lies in the memory of a group.
struct Layout {
  std::byte* memory;
  int members;

  int64_t post_bytes() const { return lines(static_cast<int64_t>(sizeof(NodePost)) + 16 * members); }
  int64_t member_bytes() const { return lines(sizeof(NodeSeat)) + 2 * post_bytes() + 2 * kSlot; }
  int64_t bytes() const { return lines(sizeof(NodeDoor)) + members * member_bytes(); }

  NodeDoor& door() const { return *reinterpret_cast<NodeDoor*>(memory); }
  std::byte* of(int member) const { return memory + lines(sizeof(NodeDoor)) + member * member_bytes(); }
  NodeSeat& seat(int member) const { return *reinterpret_cast<NodeSeat*>(of(member)); }
  NodePost& post(int member, uint32_t sequence) const {
    return *reinterpret_cast<NodePost*>(of(member) + lines(sizeof(NodeSeat)) + sequence % 2 * post_bytes());
  }
  int64_t* rows(int member, uint32_t sequence) const { return reinterpret_cast<int64_t*>(&post(member, sequence) + 1); }
  std::byte* slot(int member, uint32_t round) const {
    return of(member) + lines(sizeof(NodeSeat)) + 2 * post_bytes() + round % 2 * kSlot;
  }
};

}  // namespace plait::wire
