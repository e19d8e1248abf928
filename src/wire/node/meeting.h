// Where the members of a group within a node meet: each comes with a post that says what it brings, and waits until all
// have come. Then values go from one to the others: where they lie, when all members' lie in memory that the node
// shares, else block by block through slots.
#pragma once
#include <concepts>
#include <functional>
#include <string>

#include "launch/board.h"
#include "launch/patience.h"
#include "wire/direct.h"
#include "wire/group.h"
#include "wire/node/layout.h"

namespace plait::wire {

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

// One member's side of one collective.
struct NodeCall {
  Collective kind;
  int64_t bytes = 0;       // that this member brings
  uint64_t signature = 0;  // of what must be equal at all members
  int64_t rounds = 0;      // blocks that it takes through slots
  std::span<const int64_t> send_rows = {}, receive_rows = {};
  std::span<const at::Tensor> values = {};  // that others read, or write
};

class NodeMeeting {
 public:
  NodeMeeting(MemberOptions options, std::byte* memory);

  int member() const { return options_.member; }
  const std::vector<int>& ranks() const { return options_.ranks; }
  int size() const { return static_cast<int>(ranks().size()); }

  // All values come with the post; all of them together REQUIRE at most kPostBytes. direct(members): reads them there.
  template <std::invocable<const Members&> Direct>
  void meet_small(const NodeCall& call, Direct direct) {
    open(call);
    bring(call.values);
    arrive();
    if (!call.values.empty()) direct(brought(call.values));
    close();
  }

  // direct(members): reads and writes the members' memory; each stays until all are through. Or blocks go round until
  // the longest message is through: fill(round) writes this member's block, drain(round) reads the others'. Rounds
  // count from 0. A member may leave as soon as it has read its own part.
  template <class Fill, class Drain, std::invocable<const Members&> Direct>
  void meet(const NodeCall& call, Fill fill, Drain drain, Direct direct) {
    open(call);
    const bool filled = !offer(call) && call.rounds > 0;
    if (filled) {  // the first block comes with the post
      await_slot();
      fill(0);
      fill_round();
    }
    arrive();
    if (all_offer()) {
      direct(offered());
      leave();
      return close();
    }
    const int64_t rounds = most_rounds();
    for (int64_t r = 0; r < rounds; ++r) {
      if (r > 0 || !filled) {
        await_slot();
        if (r < call.rounds) fill(r);
        fill_round();
        wake();
      }
      await(&NodeSeat::filled, round_ + 1);
      drain(r);
      ++round_;
      publish(mine().drained, round_);
    }
    close();
  }

  // Of the collective that is open, once all have come.
  std::span<const int64_t> send_rows(int member) const {
    return {layout_.rows(member, sequence_), static_cast<size_t>(size())};
  }
  // Of a round of it.
  std::byte* my_slot(int64_t round) const { return layout_.slot(member(), global(round)); }
  const std::byte* slot(int member, int64_t round) const { return layout_.slot(member, global(round)); }

 private:
  NodeSeat& mine() const { return layout_.seat(member()); }
  NodePost& post(int member) const { return layout_.post(member, sequence_); }
  uint32_t global(int64_t round) const { return first_round_ + static_cast<uint32_t>(round); }
  std::string title() const { return fmt::format("{} {} of {}", name(post(member()).kind), sequence_, text_); }

  void open(const NodeCall& call);
  // Comes, and waits for all.
  void arrive();
  void close();

  void bring(std::span<const at::Tensor> values);
  const Members& brought(std::span<const at::Tensor> values);
  // Says where the values lie; whether others will find them there, if all members' do.
  bool offer(const NodeCall& call);
  bool all_offer() const;
  const Members& offered();
  // Waits until nobody reads or writes another's memory any more.
  void leave();

  void await_slot();
  void fill_round() { mine().filled.store(round_ + 1); }
  int64_t most_rounds() const;

  void compare() const;
  void compare_rows() const;
  // Until counter(seat) has reached `wanted` at all members.
  void await(std::atomic<uint32_t> NodeSeat::*counter, uint32_t wanted);
  void publish(std::atomic<uint32_t>& counter, uint32_t value);
  void wake();

  MemberOptions options_;
  Layout layout_;
  std::string text_;
  uint32_t sequence_ = 0;     // collectives begun
  uint32_t round_ = 0;        // rounds done since the memory was prepared
  uint32_t first_round_ = 0;  // of the collective that is open
  Members members_;           // of the collective that is open
};

}  // namespace plait::wire
