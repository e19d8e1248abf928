// Where the members of one local group meet: each has a seat, posts what it brings, and waits until all have arrived.
// Then members read each other's posts and memory directly; no lock is held. Posts alternate between two places, so a
// member may leave while others still read its last post: it writes that place again only after a further meeting.
// A failure never lets a member leave while another may still read its memory: a meeting either completes for all
// members or for none, and who has begun one stays until all have ended it.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/patience.h"
#include "wire/group.h"

namespace plait::wire {

// Messages up to this size are copied into the post, so nobody has to stay until the others have read them.
inline constexpr int64_t kEagerBytes = 4096;

// One member's side of one collective.
struct Post {
  Collective kind = Collective::barrier;
  bool eager = false;
  int64_t bytes = 0;                  // of all values
  int64_t extent = 0;                 // the same with every value padded to 8 bytes
  std::vector<int64_t> shape;         // what must be equal at all members: bytes and type of every value, root
  std::vector<int64_t> send_rows;     // all_to_all only
  std::vector<int64_t> receive_rows;  // all_to_all only
  std::vector<std::byte*> values;     // where others read and write: the member's memory, or `copy` when eager
  std::unique_ptr<std::byte[]> copy;
};

// A meeting speaks of ranks through these; they must outlive it.
struct MeetingOptions {
  std::vector<int> ranks = {};  // the members, as ranks of the world
  Seconds timeout{300};
  launch::Patience patience;
  std::function<std::string(int)> name = {};       // a rank of the world in words
  std::function<std::string(int)> elsewhere = {};  // the collective of another group that a rank waits in, or nothing
};

class Meeting {
 public:
  explicit Meeting(MeetingOptions options);

  const std::vector<int>& ranks() const { return options_.ranks; }
  int size() const { return static_cast<int>(options_.ranks.size()); }

  // The member's next post, emptied; to be filled before `begin`.
  Post& open(int member, Collective kind);

  // Waits until all members have posted, and compares the posts. CommError where kinds or sizes differ (at all members)
  // or the deadline passes (says who has not arrived); Abandoned after a failure.
  void begin(int member);

  // Waits until all members are through with reading and writing each other's memory; needed when a post was not eager.
  // No deadline and no way out: between begin and end members only copy.
  void end(int member);

  // What a member brought; between `begin` and the reader's next `open`.
  const Post& post(int reader, int member) const;

  // The number of a member's collectives so far, its open one among them.
  uint64_t sequence(int member) const { return seats_[member].sequence; }

  // Ends every wait in `begin`, now and later. Any thread.
  void fail();

  // "all_reduce 17 of ranks 0, 2" while this rank of the world waits here, else nothing. Any thread.
  std::string waiting(int world_rank) const;

 private:
  enum class Outcome { met, failed, late };

  struct alignas(64) Seat {
    std::array<Post, 2> posts;
    uint64_t sequence = 0;           // of the open post, from 1; its owner's
    std::atomic<uint64_t> begun{0};  // the sequence it last came to begin with
    std::atomic<bool> waits{false};
    std::atomic<Collective> kind{Collective::barrier};
  };

  // A round: everyone comes, then everyone goes. `stops`: the bits of the word that end it.
  // `deadline` null: none.
  Outcome round(uint32_t stops, launch::Deadline* deadline);
  Outcome wait(uint32_t round, uint32_t stops, launch::Deadline* deadline);

  void compare(int member) const;
  void compare_rows(int member) const;
  std::string late(int member) const;
  std::string title(Collective kind, uint64_t sequence) const;

  MeetingOptions options_;
  std::vector<Seat> seats_;
  alignas(64) std::atomic<uint32_t> word_{0};  // failed, how many have come, rounds completed: see meeting.cpp
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace plait::wire
