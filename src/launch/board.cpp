#include "launch/board.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace plait::launch {
namespace {

constexpr std::string_view kLaneNames[kBoardLanes] = {"compute", "intra", "inter"};

std::string call_text(const BoardEntry& entry) {
  const std::string group = entry.group.get();
  if (group.empty()) return {};
  return fmt::format("{} {} of {}, {} bytes", name(entry.kind), entry.sequence.load(), group, entry.bytes.load());
}

std::string entry_text(const BoardEntry& entry, double now) {
  const std::string step = entry.step.get(), call = call_text(entry);
  const double ended = entry.ended;
  const std::string time = ended > 0 ? fmt::format("{:.3f} ms", 1e3 * (ended - entry.began))
                                     : fmt::format("not ended, for {:.1f} s", now - entry.began);
  return fmt::format("{}{}{} [{}]", step, step.empty() || call.empty() ? "" : ": ", call, time);
}

// The ranks of a text that `ranks_text` wrote.
std::vector<int> ranks_of(const std::string& text) {
  std::vector<int> ranks;
  const char* at = text.c_str() + std::min(text.size(), std::string_view("ranks ").size());
  for (char* end = nullptr; *at != 0; at = *end == ',' ? end + 1 : end) {
    const int rank = static_cast<int>(std::strtol(at, &end, 10));
    if (end == at) break;
    if (*end == '-') {
      const int last = static_cast<int>(std::strtol(end + 1, &end, 10));
      for (int r = rank; r <= last; ++r) ranks.push_back(r);
    } else {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

bool same_call(const BoardEntry& a, const BoardEntry& b) {
  return a.sequence == b.sequence && a.kind == b.kind && a.group.get() == b.group.get();
}

}  // namespace

double board_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BoardEntry& LaneBoard::next() {
  const uint32_t count = count_.load(std::memory_order_relaxed);
  BoardEntry& entry = entries_[count % kRecent];
  entry.ended = 0;
  entry.began = board_seconds();
  entry.step.clear();
  entry.group.clear();
  count_.store(count + 1, std::memory_order_release);
  return entry;
}

void LaneBoard::begin_step(std::string_view text) {
  next().step.set(text);
  stepping_ = true;
}

void LaneBoard::end_step() {
  stepping_ = false;
  entries_[(count_ - 1) % kRecent].ended = board_seconds();
}

void LaneBoard::begin_collective(std::string_view group, const Call& call) {
  BoardEntry& entry = stepping_ ? entries_[(count_ - 1) % kRecent] : next();
  entry.kind = call.kind;
  entry.sequence = call.sequence;
  entry.bytes = call.bytes;
  arrived_ = 0;
  entry.group.set(group);
}

void LaneBoard::end_collective() {
  if (!stepping_) entries_[(count_ - 1) % kRecent].ended = board_seconds();
}

std::vector<const BoardEntry*> LaneBoard::recent() const {
  std::vector<const BoardEntry*> last;
  const uint32_t count = count_.load(std::memory_order_acquire);
  for (uint32_t i = count > kRecent ? count - kRecent : 0; i < count; ++i) last.push_back(&entries_[i % kRecent]);
  return last;
}

const BoardEntry* LaneBoard::open() const {
  const auto last = recent();
  return last.empty() || last.back()->ended > 0 ? nullptr : last.back();
}

std::string ranks_text(std::span<const int> ranks) {
  const bool run = ranks.size() > 2 && ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size()) &&
                   std::ranges::is_sorted(ranks);
  if (run) return fmt::format("ranks {}-{}", ranks.front(), ranks.back());
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string report(std::span<const RankBoard* const> boards, std::span<const int> ranks) {
  const double now = board_seconds();
  std::string text;
  const auto here = [&](int rank, const BoardEntry& call) {
    const auto at = std::ranges::find(ranks, rank);
    if (at == ranks.end()) return false;
    for (const LaneBoard& lane : boards[at - ranks.begin()]->lanes)
      if (const BoardEntry* open = lane.open(); open && same_call(*open, call)) return true;
    return false;
  };
  for (const RankBoard* board : boards) {
    const std::string node = board->node.get(), where = board->where.get();
    const auto state = board->state.load();
    text += fmt::format("  {}{}{}{}{}\n", board->name.get(), node.empty() ? "" : " on node " + node,
                        where.empty() ? "" : ", in " + where,
                        state == RankBoard::State::failed  ? ", failed: "
                        : state == RankBoard::State::ended ? ", ended"
                                                           : "",
                        state == RankBoard::State::failed ? board->failure.get() : "");
    for (int l = 0; l < kBoardLanes; ++l) {
      const LaneBoard& lane = board->lanes[l];
      const BoardEntry* open = lane.open();
      if (open && !open->group.get().empty()) {
        std::vector<int> come, absent;
        const auto members = ranks_of(open->group.get());
        for (size_t m = 0; m < members.size(); ++m) {
          const bool is_here = (m < 64 && (lane.arrived() >> m & 1)) || here(members[m], *open);
          (is_here ? come : absent).push_back(members[m]);
        }
        text += fmt::format("    {} lane waits in {} {} of {}: arrived {}; not arrived {}\n", kLaneNames[l],
                            name(open->kind), open->sequence.load(), open->group.get(), ranks_text(come),
                            absent.empty() ? "nobody" : ranks_text(absent));
      }
      const auto recent = lane.recent();
      if (recent.empty()) continue;
      text += fmt::format("    last {} operations of the {} lane:\n", recent.size(), kLaneNames[l]);
      for (const BoardEntry* entry : recent) text += fmt::format("      {}\n", entry_text(*entry, now));
    }
  }
  return text;
}

}  // namespace plait::launch
