#include "wire/node/meeting.h"

#include <fmt/ranges.h>

#include <cstring>

#include "wire/futex.h"
#include "wire/node/memory.h"

namespace plait::wire {
namespace {

constexpr std::chrono::microseconds kNap{20'000}, kShortNap{200};

// From a slot a member may go on first, which is worth more than a copy where a rank that waits gives up its core.
constexpr int64_t kWorthWaiting = 64 << 10;

}  // namespace

NodeMeeting::NodeMeeting(MemberOptions options, std::byte* memory)
    : options_(std::move(options)), layout_{memory, size()}, text_(launch::ranks_text(ranks())) {
  members_ = {.me = member(), .size = size()};
  sequence_ = mine().arrived;
  round_ = mine().drained;
}

void NodeMeeting::open(const NodeCall& call) {
  ++sequence_;
  first_round_ = round_;
  NodePost& mine = post(member());
  mine.kind = call.kind;
  mine.bytes = call.bytes;
  mine.signature = call.signature;
  mine.rounds = call.rounds;
  const bool one_wait = call.kind != Collective::all_reduce;  // through slots
  mine.least = one_wait && options_.patience.spins == 0 ? kWorthWaiting : kPostBytes;
  mine.places = -1;
  int64_t* rows = layout_.rows(member(), sequence_);
  std::ranges::copy(call.send_rows, rows);
  std::ranges::copy(call.receive_rows, rows + size());
  if (options_.lane) options_.lane->begin_collective(text_, {call.kind, sequence_, call.bytes});
}

void NodeMeeting::arrive() {
  publish(mine().arrived, sequence_);
  await(&NodeSeat::arrived, sequence_);
  compare();
}

void NodeMeeting::close() {
  if (options_.lane) options_.lane->end_collective();
}

void NodeMeeting::bring(std::span<const at::Tensor> values) {
  std::byte* to = post(member()).copy;
  for (const at::Tensor& value : values) {
    const auto bytes = static_cast<int64_t>(value.nbytes());
    copy_bytes(to, bytes_of(value), bytes);
    to += padded(bytes);
  }
}

const Members& NodeMeeting::brought(std::span<const at::Tensor> values) {
  members_.begin.clear();
  for (int m = 0; m < size(); ++m) {
    std::byte* next = post(m).copy;
    for (const at::Tensor& value : values) {
      members_.begin.push_back(next);
      next += padded(static_cast<int64_t>(value.nbytes()));
    }
  }
  return members_;
}

bool NodeMeeting::offer(const NodeCall& call) {
  const auto number = static_cast<int64_t>(call.values.size());
  if (!options_.shared || number > kMostPlaces) return false;
  NodePost& mine = post(member());
  int64_t* to = mine.place;
  for (const at::Tensor& value : call.values) {
    const std::optional<int64_t> place = options_.shared->place(value);
    if (!place) return false;
    *to++ = *place;
  }
  mine.places = number;
  return call.bytes > mine.least;
}

// All members see the same posts, so all of them go the same way.
bool NodeMeeting::all_offer() const {
  int64_t most = 0, least = 0;
  for (int m = 0; m < size(); ++m) {
    if (post(m).places < 0) return false;
    most = std::max(most, post(m).bytes);
    least = std::max(least, post(m).least);
  }
  return most > least;
}

const Members& NodeMeeting::offered() {
  members_.begin.clear();
  for (int m = 0; m < size(); ++m) {
    for (int64_t v = 0; v < post(m).places; ++v) members_.begin.push_back(options_.memory_of[m] + post(m).place[v]);
  }
  return members_;
}

void NodeMeeting::leave() {
  publish(mine().drained, ++round_);
  await(&NodeSeat::drained, round_);
}

void NodeMeeting::await_slot() {
  if (round_ > 0) await(&NodeSeat::drained, round_ - 1);
}

int64_t NodeMeeting::most_rounds() const {
  int64_t most = 0;
  for (int m = 0; m < size(); ++m) most = std::max(most, post(m).rounds);
  return most;
}

void NodeMeeting::publish(std::atomic<uint32_t>& counter, uint32_t value) {
  counter.store(value);
  wake();
}

void NodeMeeting::wake() {
  NodeDoor& door = layout_.door();
  door.event.fetch_add(1);
  if (door.sleepers.load() > 0) wake_all(door.event, Reach::node);
}

void NodeMeeting::await(std::atomic<uint32_t> NodeSeat::*counter, uint32_t wanted) {
  const auto come = [&] {
    uint64_t members = 0;
    bool all = true;
    for (int m = 0; m < size(); ++m) {
      const bool here = reached((layout_.seat(m).*counter).load(std::memory_order_acquire), wanted);
      all = all && here;
      if (m < 64 && here) members |= uint64_t{1} << m;
    }
    if (!all && options_.lane) options_.lane->arrived(members);
    return all;
  };
  for (int look = 0; look < options_.patience.spins; ++look) {
    if (come()) return;
    launch::relax();
  }
  for (int look = 0; look < options_.patience.yields; ++look) {
    if (come()) return;
    if (options_.progress) options_.progress();
    std::this_thread::yield();
  }
  NodeDoor& door = layout_.door();
  launch::Deadline deadline(options_.timeout);
  for (;;) {
    const uint32_t seen = door.event.load();
    ++door.sleepers;
    const bool all = come();
    if (!all) sleep_while(door.event, seen, options_.progress ? kShortNap : kNap, Reach::node);
    --door.sleepers;
    if (all) return;
    if (options_.progress) options_.progress();
    if (options_.ended && options_.ended->load()) throw Abandoned("another lane of this rank has failed");
    if (!deadline.passed()) continue;
    std::vector<std::string> absent;
    for (int m = 0; m < size(); ++m)
      if (!reached((layout_.seat(m).*counter).load(), wanted)) absent.push_back(options_.name(ranks()[m]));
    throw CommError(fmt::format("{} waited {:g} s at {}: {} {} not arrived", title(), options_.timeout.count(),
                                options_.name(ranks()[member()]), fmt::join(absent, ", "),
                                absent.size() == 1 ? "has" : "have"));
  }
}

// All members see the same posts, so all of them find the same fault.
void NodeMeeting::compare() const {
  const NodePost& first = post(0);
  for (int other = 1; other < size(); ++other) {
    const NodePost& theirs = post(other);
    if (theirs.kind == first.kind && theirs.signature == first.signature) continue;
    throw CommError(fmt::format("collective {} of {}: {} calls {} of {} bytes, {} calls {} of {} bytes{}", sequence_,
                                text_, options_.name(ranks()[0]), name(first.kind), first.bytes,
                                options_.name(ranks()[other]), name(theirs.kind), theirs.bytes,
                                theirs.kind == first.kind ? " (sizes, types or root differ)" : ""));
  }
  if (first.kind == Collective::all_to_all) compare_rows();
}

void NodeMeeting::compare_rows() const {
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      const int64_t sent = layout_.rows(from, sequence_)[to];
      const int64_t expected = layout_.rows(to, sequence_)[size() + from];
      if (sent == expected) continue;
      throw CommError(fmt::format("{}: {} sends {} rows to {}, which expects {}", title(), options_.name(ranks()[from]),
                                  sent, options_.name(ranks()[to]), expected));
    }
  }
}

}  // namespace plait::wire
