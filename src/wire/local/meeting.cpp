#include "wire/local/meeting.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "wire/futex.h"

namespace plait::wire {
namespace {

// The word: bit 0 failed | bits 1..16 members that have come to this round | bits 17..31 completed rounds, modulo: who
// waits in a round sees at most the next one begin. One word, so that "the last one comes" and "it fails first" exclude
// each other.
constexpr uint32_t kNothing = 0;
constexpr uint32_t kFailed = 1;
constexpr uint32_t kOneArrival = 1u << 1;
constexpr uint32_t kArrivals = 0xffffu << 1;
constexpr uint32_t kOneRound = 1u << 17;
constexpr uint32_t kRounds = ~(kOneRound - 1);

bool same_round(uint32_t a, uint32_t b) { return (a & kRounds) == (b & kRounds); }

std::string describe(const Post& post) {
  if (post.kind == Collective::barrier) return std::string(name(post.kind));
  return fmt::format("{} of {} bytes", name(post.kind), post.bytes);
}

}  // namespace

Meeting::Meeting(MeetingOptions options) : options_(std::move(options)), seats_(options_.ranks.size()) {
  expects(seats_.size() <= kArrivals / kOneArrival, "a local group has at most 65535 members");
  for (auto& seat : seats_) {
    for (auto& post : seat.posts) post.copy = std::make_unique<std::byte[]>(kEagerBytes);
  }
}

Post& Meeting::open(int member, Collective kind) {
  Seat& seat = seats_[member];
  Post& post = seat.posts[++seat.sequence % 2];
  post.kind = kind;
  post.eager = false;
  post.bytes = post.extent = 0;
  for (auto* numbers : {&post.shape, &post.send_rows, &post.receive_rows}) numbers->clear();
  post.values.clear();
  return post;
}

const Post& Meeting::post(int reader, int member) const { return seats_[member].posts[seats_[reader].sequence % 2]; }

void Meeting::begin(int member) {
  Seat& seat = seats_[member];
  seat.kind.store(post(member, member).kind);
  seat.begun.store(seat.sequence);
  seat.waits.store(true);
  launch::Deadline deadline(options_.timeout);
  const Outcome outcome = round(kFailed, &deadline);
  if (outcome == Outcome::late) throw CommError(late(member));
  seat.waits.store(false);
  if (outcome == Outcome::failed) {
    throw Abandoned(fmt::format("{}: another rank has failed", title(seat.kind, seat.sequence)));
  }
  compare(member);
}

void Meeting::end(int member) { round(kNothing, nullptr); }

void Meeting::fail() {
  word_.fetch_or(kFailed);
  wake_all(word_);
}

Meeting::Outcome Meeting::round(uint32_t stops, launch::Deadline* deadline) {
  const uint32_t others = (seats_.size() - 1) * kOneArrival;
  uint32_t seen = word_.load();
  for (;;) {
    if (seen & stops) return Outcome::failed;
    const bool last = (seen & kArrivals) == others;
    const uint32_t next = last ? (seen & ~kArrivals) + kOneRound : seen + kOneArrival;
    if (!word_.compare_exchange_weak(seen, next)) continue;
    if (!last) return wait(next, stops, deadline);
    if (sleepers_.load() > 0) wake_all(word_);
    return Outcome::met;
  }
}

Meeting::Outcome Meeting::wait(uint32_t round, uint32_t stops, launch::Deadline* deadline) {
  constexpr auto kNap = std::chrono::duration_cast<std::chrono::nanoseconds>(launch::Deadline::kLongestNap);
  const auto nap = std::min(kNap, std::chrono::duration_cast<std::chrono::nanoseconds>(options_.timeout / 4));
  for (int look = 0;; ++look) {
    uint32_t now = word_.load();
    if (!same_round(now, round)) return Outcome::met;
    if (now & stops) return Outcome::failed;
    if (look < options_.patience.spins) {
      launch::relax();
      continue;
    }
    if (look < options_.patience.spins + options_.patience.yields) {
      std::this_thread::yield();
      continue;
    }
    if (deadline && deadline->passed()) {
      if (!word_.compare_exchange_strong(now, now | kFailed)) continue;
      wake_all(word_);
      return Outcome::late;
    }
    ++sleepers_;
    now = word_.load();
    if (same_round(now, round) && !(now & stops)) sleep_while(word_, now, nap);
    --sleepers_;
  }
}

// All members see the same posts, so all of them find the same fault, and none goes on to touch the others' memory.
void Meeting::compare(int member) const {
  const Post& first = post(member, 0);
  for (int other = 1; other < size(); ++other) {
    const Post& theirs = post(member, other);
    if (theirs.kind == first.kind && theirs.shape == first.shape) continue;
    throw CommError(fmt::format(
        "collective {} of ranks {}: {} calls {}, {} calls {}{}", seats_[member].sequence, fmt::join(ranks(), ", "),
        options_.name(ranks()[0]), describe(first), options_.name(ranks()[other]), describe(theirs),
        theirs.kind == first.kind ? fmt::format(" (bytes and types {} and {})", first.shape, theirs.shape) : ""));
  }
  if (first.kind == Collective::all_to_all) compare_rows(member);
}

void Meeting::compare_rows(int member) const {
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      const int64_t sent = post(member, from).send_rows[to];
      const int64_t expected = post(member, to).receive_rows[from];
      if (sent == expected) continue;
      throw CommError(fmt::format("{}: {} sends {} rows to {}, which expects {}",
                                  title(Collective::all_to_all, seats_[member].sequence), options_.name(ranks()[from]),
                                  sent, options_.name(ranks()[to]), expected));
    }
  }
}

std::string Meeting::waiting(int world_rank) const {
  for (int member = 0; member < size(); ++member) {
    const Seat& seat = seats_[member];
    if (ranks()[member] == world_rank && seat.waits.load()) return title(seat.kind, seat.begun);
  }
  return {};
}

std::string Meeting::late(int member) const {
  const uint64_t sequence = seats_[member].sequence;
  std::string absent;
  for (int other = 0; other < size(); ++other) {
    const uint64_t begun = seats_[other].begun;
    if (begun >= sequence) continue;
    const std::string where = options_.elsewhere(ranks()[other]);
    absent += fmt::format("{}{} has not arrived ({}; its last here was {})", absent.empty() ? "" : ", ",
                          options_.name(ranks()[other]),
                          where.empty() ? "in no collective" : fmt::format("waits in {}", where), begun);
  }
  return fmt::format("{} waited {:g} s at {}: {}", title(seats_[member].kind, sequence), options_.timeout.count(),
                     options_.name(ranks()[member]), absent.empty() ? "all arrived too late" : absent);
}

std::string Meeting::title(Collective kind, uint64_t sequence) const {
  return fmt::format("{} {} of ranks {}", name(kind), sequence, fmt::join(ranks(), ", "));
}

}  // namespace plait::wire
