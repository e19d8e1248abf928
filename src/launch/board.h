// What each rank of a run is doing, for the report when one fails. A rank writes its own board as it goes; anybody may
// read it at any time, from another process too where the memory is shared, and after its writer was killed.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective.h"

namespace plait::launch {

inline constexpr int kBoardLanes = 3;  // computing, and what sends beside it
inline constexpr int kRecent = 16;     // operations of a lane that are remembered
// How a step is called, before the ranks of a group, in which they make its channel: it may hang as a message may.
inline constexpr std::string_view kConnecting = "make the communicator of ";

// Up to 8 * Words - 1 characters. A reader may see half of a new text, never anything else.
template <int Words>
class BoardText {
 public:
  void set(std::string_view text) {
    std::array<uint64_t, Words> words = {};
    std::memcpy(words.data(), text.data(), std::min(text.size(), 8 * words.size() - 1));
    for (int i = 0; i < Words; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  void clear() { words_[0].store(0, std::memory_order_relaxed); }
  std::string get() const {
    std::array<char, 8 * Words> text;
    for (int i = 0; i < Words; ++i) {
      const uint64_t word = words_[i].load(std::memory_order_relaxed);
      std::memcpy(text.data() + 8 * i, &word, 8);
    }
    return {text.data(), strnlen(text.data(), text.size())};
  }

 private:
  std::array<std::atomic<uint64_t>, Words> words_;
};

// One operation of a lane: a step of a list, the collective in it, or a collective alone.
struct BoardEntry {
  BoardText<16> step;
  BoardText<8> group;  // empty: no collective
  std::atomic<Collective> kind;
  std::atomic<uint64_t> sequence;    // of the collective in its group, from 1
  std::atomic<int64_t> bytes;        // that this rank brings
  std::atomic<double> began, ended;  // s of the steady clock; ended 0: not yet
};

// Written by one thread.
class LaneBoard {
 public:
  struct Call {
    Collective kind;
    uint64_t sequence;
    int64_t bytes;
  };

  void begin_step(std::string_view text);
  void end_step();
  void begin_collective(std::string_view group, const Call& call);
  // Bit m: member m of the open collective has come.
  void arrived(uint64_t members) { arrived_.store(members, std::memory_order_relaxed); }
  void end_collective();

  uint64_t arrived() const { return arrived_.load(std::memory_order_relaxed); }
  // The last operations, oldest first.
  std::vector<const BoardEntry*> recent() const;
  // The last one while it has not ended, else null.
  const BoardEntry* open() const;

 private:
  BoardEntry& next();

  std::atomic<uint32_t> count_;
  std::atomic<bool> stepping_;
  std::atomic<uint64_t> arrived_;
  std::array<BoardEntry, kRecent> entries_;
};

struct RankBoard {
  enum class State : int { running, failed, ended };

  std::atomic<int> pid;
  std::atomic<State> state;
  BoardText<16> name;     // "rank 3 (tp 1, dp 1, ...)"
  BoardText<8> node;      // empty: all ranks are in this process
  BoardText<8> where;     // "training step 12"
  BoardText<64> failure;  // what it threw
  std::array<LaneBoard, kBoardLanes> lanes;
};

// Seconds of the clock that boards use.
double board_seconds();

// "ranks 0, 2", "ranks 0-7".
std::string ranks_text(std::span<const int> ranks);

// Several lines: of each rank where it stands, the collective that each lane waits in with who has come and who has
// not, and its last operations. `ranks`: of the world, by board.
std::string report(std::span<const RankBoard* const> boards, std::span<const int> ranks);

}  // namespace plait::launch
