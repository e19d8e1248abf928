#include "draw/timeline_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "draw/timeline_rows.h"

namespace plait {
namespace {

struct Word {
  std::string_view name, means;
};

constexpr Word kParts[] = {{"start", "what stands before the layers"},
                           {"embed", "embedding"},
                           {"head", "output and loss"},
                           {"gradients", "their sums over micro-batches and ranks"},
                           {"update", "norm, clipping, optimizer"}};
constexpr Word kMoves[] = {{"leave", "partial sums are added over ranks"},
                           {"sum", "likewise"},
                           {"gather", "parts are brought together"},
                           {"join", "likewise"},
                           {"scatter", "partial sums are added, each rank keeps its part"},
                           {"exchange", "rows go to their experts, or come back"}};
constexpr Word kRows[] = {{"compute", "what a rank computes (messages too, where they have no row)"},
                          {"node", "its messages within a node"},
                          {"network", "its messages between nodes"}};

// What takes time.
struct Seen {
  std::set<std::string> parts, titles, lanes;  // titles of messages: "exchange" and "gather" of "exchange+gather"
};

void note_title(const std::string& title, std::set<std::string>& titles) {
  for (size_t begin = 0; begin <= title.size();) {
    const size_t end = std::min(title.find('+', begin), title.size());
    titles.insert(title.substr(begin, end - begin));
    begin = end + 1;
  }
}

Seen seen_in(std::span<const Drawing> drawings) {
  Seen seen;
  for (const Drawing& d : drawings)
    for (const TimeSpan& span : d.timeline.spans) {
      if (span.end <= span.start) continue;
      const StepNote& note = d.notes[static_cast<size_t>(span.step)];
      seen.parts.insert(note.part);
      seen.lanes.insert(d.lanes[static_cast<size_t>(span.lane)]);
      if (note.kind >= StepKind::all_reduce) note_title(note.title, seen.titles);
    }
  return seen;
}

std::string told(std::span<const Word> words, const std::set<std::string>& seen) {
  std::vector<std::string> all;
  for (const Word& word : words)
    if (seen.contains(std::string(word.name))) all.push_back(fmt::format("{}: {}", word.name, word.means));
  return join(all, "; ");
}

bool any_ends(const std::set<std::string>& parts, std::string_view with) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return part.ends_with(with); });
}

std::string told_parts(const std::set<std::string>& parts) {
  std::vector<std::string> all;
  if (std::ranges::any_of(parts, is_layer)) all.push_back("l0, l1, ..: layers");
  if (const std::string others = told(kParts, parts); !others.empty()) all.push_back(others);
  if (any_ends(parts, " backward")) all.push_back("backward (b): their gradients");
  if (any_ends(parts, " again")) all.push_back("again (a): made again for backward");
  return join(all, "; ");
}

}  // namespace

bool shows_waiting(std::span<const Drawing> drawings) {
  return std::ranges::any_of(drawings, [](const Drawing& d) {
    return std::ranges::any_of(d.timeline.spans, [](const TimeSpan& s) { return s.met > s.start; });
  });
}

bool shows_path(std::span<const Drawing> drawings) {
  return std::ranges::any_of(drawings, [](const Drawing& d) { return !d.path.empty(); });
}

std::vector<std::string> words_of(std::span<const Drawing> drawings) {
  const Seen seen = seen_in(drawings);
  std::vector<std::string> all;
  if (const std::string parts = told_parts(seen.parts); !parts.empty())
    all.push_back("Parts of the step: " + parts + ".");
  if (seen.lanes.size() == 1)
    all.emplace_back("Rows: what a rank does, messages among it; %: the share of the time in which it does something.");
  else if (!seen.lanes.empty())
    all.push_back(fmt::format("Rows: {}; %: the share of the time in which a row is busy{}.", told(kRows, seen.lanes),
                              shows_waiting(drawings) ? ", waiting counted" : ""));
  if (shows_path(drawings))
    all.emplace_back("Critical path: the steps that the time consists of; each waited for the one before it.");
  if (const std::string moves = told(kMoves, seen.titles); !moves.empty()) all.push_back("Messages: " + moves + ".");
  return all;
}

}  // namespace plait
