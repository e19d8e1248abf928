#include "draw/folds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/units.h"
#include "draw/timeline_rows.h"

namespace plait {
namespace {

constexpr size_t kLeast = 4;    // equal units that are worth folding
constexpr double kGap = 0.035;  // of what is drawn

// A stretch of the list that begins with a part of it, up to where the next one begins.
struct Window {
  std::string part;  // "l1 backward"
  int turn = 0;      // which time the repeated section runs
  double start = 0;  // s, of its first step that computes
  int kind = 0;      // the same for windows of equal steps
};

// A step that does something, of the first rank.
struct TimedStep {
  const TimeSpan* span;
  const StepNote* note;
  int turn;
};

std::vector<TimedStep> timed_steps(const Drawing& drawing) {
  std::vector<const TimeSpan*> spans;
  for (const TimeSpan& span : drawing.timeline.spans)
    if (span.rank == drawing.timeline.spans.front().rank) spans.push_back(&span);
  std::ranges::stable_sort(spans, {}, &TimeSpan::place);
  std::vector<TimedStep> steps;
  int turn = 0, before = -1;
  for (const TimeSpan* span : spans) {
    const auto& repeat = drawing.repeat;
    if (repeat && (span->step == repeat->first || (span->step >= repeat->last && before < repeat->last))) ++turn;
    before = span->step;
    const StepNote& note = drawing.notes[static_cast<size_t>(span->step)];
    if (!note.alike.empty()) steps.push_back({span, &note, turn});
  }
  return steps;
}

// Where the body of a part begins: an order that overlaps may put single steps of it far ahead. `places`: of its steps.
size_t body(const std::vector<size_t>& places) {
  const size_t half = (places.size() - 1) / 2;
  const auto reach = [&](size_t i) { return places[i + half] - places[i]; };
  size_t least = reach(0);
  for (size_t i = 0; i + half < places.size(); ++i) least = std::min(least, reach(i));
  size_t first = 0;
  while (reach(first) > 2 * least + 1) ++first;
  return places[first];
}

// Where windows begin: the bodies of parts, and each turn of a repeated section. What is made again stands in the midst
// of what it is made for.
std::set<size_t> beginnings(const std::vector<TimedStep>& steps) {
  std::map<std::pair<int, std::string>, std::vector<size_t>> places;
  std::set<size_t> all;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i == 0 || steps[i].turn != steps[i - 1].turn) all.insert(i);
    if (!steps[i].note->part.ends_with(" again")) places[{steps[i].turn, steps[i].note->part}].push_back(i);
  }
  for (const auto& [part, at] : places) all.insert(body(at));
  return all;
}

// "l backward" of any layer.
std::string kind_of(const std::string& part) {
  if (!is_layer(part)) return part;
  return fmt::format("l{}", part.substr(std::min(part.find(' '), part.size())));
}

std::vector<Window> windows_of(const Drawing& drawing) {
  const std::vector<TimedStep> steps = timed_steps(drawing);
  const std::set<size_t> begins = beginnings(steps);
  std::vector<Window> windows;
  std::map<std::string, int> kinds;
  for (auto begin = begins.begin(); begin != begins.end(); ++begin) {
    const size_t end = std::next(begin) == begins.end() ? steps.size() : *std::next(begin);
    std::string what = kind_of(steps[*begin].note->part);
    for (size_t i = *begin; i < end; ++i) what += ";" + steps[i].note->alike;
    size_t computes = *begin;
    while (computes < end && steps[computes].span->lane != kComputeLane) ++computes;
    windows.push_back({.part = steps[*begin].note->part,
                       .turn = steps[*begin].turn,
                       .start = computes < steps.size() ? steps[computes].span->start : drawing.timeline.makespan,
                       .kind = kinds.emplace(what, static_cast<int>(kinds.size())).first->second});
  }
  return windows;
}

// `count` units of `size` windows from `first` on.
struct Run {
  size_t first = 0, size = 0, count = 0;
  int depth = 0;
  size_t hidden() const { return count == 0 ? 0 : size * (count - 1); }
};

Run longest_of(const std::vector<Window>& windows, Run range, size_t size) {
  Run best;
  size_t same = 0;
  for (size_t i = range.first; i + size < range.first + range.size; ++i) {
    same = windows[i].kind == windows[i + size].kind ? same + 1 : 0;
    const size_t count = same / size + 1;
    if (count >= kLeast && size * (count - 1) > best.hidden()) best = {i + 1 - same, size, count};
  }
  return best;
}

// Runs in [range.first, + range.size), the one that leaves out most first, then those beside and within it.
void find_runs(const std::vector<Window>& windows, Run range, std::vector<Run>& runs) {
  Run best;
  for (size_t size = 1; size * kLeast <= range.size; ++size)
    if (const Run run = longest_of(windows, range, size); run.hidden() > best.hidden()) best = run;
  if (best.count == 0) return;
  best.depth = range.depth;
  runs.push_back(best);
  const size_t end = best.first + best.size * best.count;
  find_runs(windows, {range.first, best.first - range.first, 0, range.depth}, runs);
  if (best.size > 1) find_runs(windows, {best.first, best.size, 0, range.depth + 1}, runs);
  find_runs(windows, {end, range.first + range.size - end, 0, range.depth}, runs);
}

Fold fold_of(const std::vector<Window>& windows, const Run& run, double whole) {
  const auto start = [&](size_t window) { return window < windows.size() ? windows[window].start : whole; };
  const auto unit = [&](size_t u) { return run.first + u * run.size; };
  Fold fold{.count = static_cast<int>(run.count),
            .depth = run.depth,
            .start = start(unit(0)),
            .shown = start(unit(1)),
            .end = start(unit(run.count)),
            .least = whole};
  for (size_t u = 0; u < run.count; ++u) {
    const double seconds = start(unit(u + 1)) - start(unit(u));
    fold.least = std::min(fold.least, seconds);
    fold.most = std::max(fold.most, seconds);
  }
  if (windows[run.first].turn != windows[unit(1)].turn) {
    fold.what = fmt::format("{} equal micro-batches", fold.count);
    return fold;
  }
  const std::string range = range_name(windows[run.first].part, windows[unit(run.count) - 1].part);
  fold.what = run.size == 1 ? fmt::format("{}: {} equal layers", range, fold.count)
                            : fmt::format("{}: {} equal groups of {} layers", range, fold.count, run.size);
  return fold;
}

// "380 us each", "330 us to 510 us each".
std::string each(const Fold& fold) {
  const std::string least = human_seconds(fold.least), most = human_seconds(fold.most);
  return fold.most <= 1.02 * fold.least ? most + " each" : fmt::format("{} to {} each", least, most);
}

}  // namespace

std::vector<Fold> folds(const Drawing& drawing) {
  const std::vector<Window> windows = windows_of(drawing);
  std::vector<Run> runs;
  find_runs(windows, {0, windows.size()}, runs);
  std::vector<Fold> all;
  for (const Run& run : runs) all.push_back(fold_of(windows, run, drawing.timeline.makespan));
  std::erase_if(all, [](const Fold& fold) { return fold.end <= fold.shown; });
  std::ranges::stable_sort(all, {}, [](const Fold& fold) { return std::pair(fold.start, fold.depth); });
  return all;
}

int depth(const std::vector<Fold>& folds) {
  int most = 0;
  for (const Fold& fold : folds) most = std::max(most, fold.depth + 1);
  return most;
}

std::string drawn(const Fold& fold) { return fmt::format("{}, 1 drawn, {}", fold.what, each(fold)); }

std::string told(const Fold& fold) { return fmt::format("{}, {}", fold.what, each(fold)); }

TimeAxis::TimeAxis(double whole, const std::vector<Fold>& folds) {
  for (const Fold& fold : folds) hidden_.push_back({fold.shown, fold.end});
  std::ranges::sort(hidden_, {}, &Hidden::start);
  double visible = whole;
  for (const Hidden& h : hidden_) visible -= h.end - h.start;
  gap_ = kGap * visible;
  drawn_ = visible + gap_ * static_cast<double>(hidden_.size());
}

double TimeAxis::place(double seconds, double in_gap) const {
  double at = seconds;
  for (const Hidden& h : hidden_) {
    if (seconds <= h.start) break;
    if (seconds < h.end) {
      at += h.start - seconds + in_gap * gap_;
      break;
    }
    at += gap_ - (h.end - h.start);
  }
  return at / drawn_;
}

double TimeAxis::begin(double seconds) const {
  for (const Hidden& h : hidden_)
    if (seconds == h.start) return place(seconds, 0) + gap_ / drawn_;
  return place(seconds, 1);
}

double TimeAxis::end(double seconds) const { return place(seconds, 0); }

bool TimeAxis::hides(double start, double end) const {
  return std::ranges::any_of(hidden_, [&](const Hidden& h) { return start >= h.start && end <= h.end; });
}

}  // namespace plait
