#include "plan/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "plan/simulate.h"
#include "schedule/lanes.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

constexpr int64_t kMostChunks = 8;
constexpr double kHopeless = 1.5;

FamilyLayout layout_of(const Mesh& mesh, const ModelSizes& s, const Candidate& c) {
  return {.family = *c.family,
          .tp = mesh.extent(Axis::tp),
          .esp = mesh.extent(Axis::esp),
          .node = mesh.sizes().node,
          .dispatch = s.dispatch,
          .slots = s.capacity > 0,
          .cuts_rows = s.slice_rows,
          .fuses = c.fuse == Fuse::yes};
}

// Copies of a token must go where the token goes, and a gate must not take them for others.
bool copies_count_as_tokens(const ModelSizes& s) {
  if (s.route().chooser != Chooser::token || s.noise || s.jitter > 0 || s.aux_group > 0) return false;
  return s.rule.sample == Sample::none && (s.capacity == 0 || s.capacity >= s.group);
}

bool layout_fits(const Mesh& mesh, const ModelSizes& s, const Candidate& c) {
  const FamilyLayout layout = layout_of(mesh, s, c);
  if (c.fuse == Fuse::yes && !(c.family->can_fuse() && mesh.extent(Axis::ep) > 1 && layout.esp > 1)) return false;
  if (c.family->copies() && layout.tp > 1 && !copies_count_as_tokens(s)) return false;
  return esp_refusal(layout).empty() && slots_refusal(layout).empty() && dispatch_refusal(layout).empty() &&
         slice_refusal(layout).empty();
}

// Groups are cut at the same tokens, and slots are as many.
bool same_groups(const Mesh& mesh, const ModelSizes& s, const Candidate& c) {
  const int tp = mesh.extent(Axis::tp);
  const int64_t gated = c.family->gated(s.tokens() / mesh.extent(Axis::dp), tp, mesh.extent(Axis::esp));
  if (s.group > 0 && gated % s.group != 0) return false;
  if (s.aux_group > 0 && s.gate->loss != AuxLoss::of_each_sequence && gated % s.aux_group != 0) return false;
  const int64_t parts = std::max(c.chunks, c.chunks_backward) * (c.family->cuts_slots() ? tp : 1);
  return s.capacity % parts == 0;
}

bool chunks_nest(const Candidate& c) {
  return std::max(c.chunks, c.chunks_backward) % std::min(c.chunks, c.chunks_backward) == 0;
}

// Seconds that differ in their last bits, as sums in another order do, are equal.
int64_t told(const Choice& c) { return std::llround(c.seconds * 1e10); }

bool same_kind(const Candidate& a, const Candidate& b) {
  return a.family == b.family && a.fuse == b.fuse && a.lanes == b.lanes;
}

// By half as many again, there or back.
bool other_chunks(const Candidate& a, const Candidate& b) {
  const auto differ = [](int64_t x, int64_t y) { return 2 * std::max(x, y) >= 3 * std::min(x, y); };
  return differ(a.chunks, b.chunks) || differ(a.chunks_backward, b.chunks_backward);
}

// measured / predicted, on average: of those tried that are of a choice's kind, or of all where none is.
double off(const Choice& choice, const std::vector<Choice>& tried) {
  const auto mean = [&](auto counts) {
    double sum = 0;
    int64_t count = 0;
    for (const Choice& t : tried)
      if (counts(t)) {
        sum += t.measured / t.seconds;
        ++count;
      }
    return count > 0 ? sum / static_cast<double>(count) : 0;
  };
  const double kind = mean([&](const Choice& t) { return same_kind(t.candidate, choice.candidate); });
  return kind > 0 ? kind : mean([](const Choice&) { return true; });
}

// How much longer two messages take for each second that both travel: 0 as if alone, 1 one after the other.
double crowding(const Schedule& s, const Machine& machine, const Step& a, const Step& b) {
  const auto look = [&](const Step& step) {
    const Legs& legs = std::get<Move>(step.op).legs;
    return std::pair{digits_of(s.mesh, wire_atoms(legs)), collective(legs)};
  };
  const auto first = look(a), second = look(b);
  double sum = 0;
  for (const PairCost& pair : machine.pairs) {
    const auto one = std::pair{pair.first, pair.first_kind}, two = std::pair{pair.second, pair.second_kind};
    if ((one == first && two == second) || (one == second && two == first)) return std::max(0.0, 2 * pair.share - 1);
    sum += pair.share;
  }
  return std::max(0.0, 2 * sum / static_cast<double>(machine.pairs.size()) - 1);
}

// Lengthens the messages that travel while others do, as pairs were measured, and while their rank computes.
void slow_down_overlaps(const Schedule& s, const Machine& machine, const Timeline& alone, Timing& timing) {
  const auto step = [&](const TimeSpan& span) { return s.steps[static_cast<size_t>(span.step)]; };
  for (const TimeSpan& message : alone.spans) {
    if (message.lane == kComputeLane) continue;
    for (const TimeSpan& other : alone.spans) {
      const double both = std::min(message.end, other.end) - std::max(message.start, other.start);
      if (message.lane == other.lane || both <= 0) continue;
      const bool computes = other.lane == kComputeLane;
      if (!computes && machine.pairs.empty()) continue;
      timing.seconds[0][static_cast<size_t>(message.place)] +=
          both * (computes ? machine.crowding : crowding(s, machine, step(message), step(other)));
    }
  }
}

}  // namespace

std::string to_string(const Candidate& c) {
  std::string text = fmt::format("{}{}", c.family->name, c.fuse == Fuse::yes ? " fused" : "");
  if (c.chunks != c.chunks_backward)
    text += fmt::format(", {} chunk{} ({} backward)", c.chunks, c.chunks == 1 ? "" : "s", c.chunks_backward);
  else if (c.chunks > 1)
    text += fmt::format(", {} chunks", c.chunks);
  return text + (c.lanes ? ", lanes" : "");
}

ModelSizes with(ModelSizes sizes, const Candidate& c) {
  sizes.family = c.family;
  sizes.fuse = c.fuse == Fuse::yes;
  sizes.chunks = c.chunks;
  sizes.chunks_backward = c.chunks_backward;
  return sizes;
}

ModelSizes one_layer(ModelSizes sizes) {
  sizes.layers = sizes.moe_every = 1;
  return sizes;
}

MoeLayer layer_of(const Mesh& mesh, const ModelSizes& sizes, const Candidate& c, const Machine& machine) {
  MoeLayer layer = build_moe_layer(mesh, with(one_layer(sizes), c));
  if (c.lanes) layer.schedule = overlapped(layer.schedule, machine, *c.lanes);
  return layer;
}

bool legal(const Mesh& mesh, const ModelSizes& sizes, const Candidate& c) {
  return chunks_nest(c) && layout_fits(mesh, sizes, c) && same_groups(mesh, sizes, c);
}

std::vector<Candidate> candidates(const Mesh& mesh, const ModelSizes& sizes, const Among& among) {
  std::vector<const FamilySpec*> families = among.families;
  std::ranges::stable_sort(families, {}, &FamilySpec::preference);
  std::vector<Candidate> all;
  const auto add = [&](const Candidate& c) {
    if (legal(mesh, sizes, c)) all.push_back(c);
  };
  for (const FamilySpec* family : families)
    for (Fuse fuse : {Fuse::no, Fuse::yes}) {
      add({family, fuse});
      if (!among.lanes) continue;
      for (int64_t forward = 1; forward <= kMostChunks; ++forward)
        for (int64_t backward = 1; backward <= kMostChunks; ++backward)
          add({family, fuse, forward, backward, among.lanes});
    }
  return all;
}

Timeline predicted_timeline(const Schedule& s, const Machine& machine, std::optional<NodeLanes> nodes,
                            const LoadProfile& load) {
  std::vector<StepCost> costs = step_costs(s, check(s), machine, load);
  std::vector<double> after(costs.size(), 0);
  for (size_t i = 0; i < costs.size(); ++i) {
    if (!nodes || costs[i].lane == kComputeLane) continue;
    const Level& level = machine.levels[static_cast<size_t>(costs[i].lane - 1)];
    costs[i].seconds -= level.meet;  // others travel meanwhile
    after[i] = level.meet + level.hand_over;
  }
  Timing timing = predicted(s, costs);
  timing.after = std::move(after);
  std::ranges::fill(timing.lanes, kComputeLane);
  if (nodes)
    std::ranges::transform(lanes(s, nodes->ranks_per_node), timing.lanes.begin(),
                           [](Lane lane) { return static_cast<int>(lane); });
  Timeline alone = simulate(s, timing);
  if (!nodes) return alone;
  slow_down_overlaps(s, machine, alone, timing);
  return simulate(s, timing);
}

double predicted_seconds(const Schedule& s, const Machine& machine, std::optional<NodeLanes> nodes,
                         const LoadProfile& load) {
  return predicted_timeline(s, machine, nodes, load).makespan;
}

std::vector<Choice> choices(const Mesh& mesh, const ModelSizes& sizes, const Machine& machine, const Among& among) {
  const ModelSizes layer = one_layer(sizes);
  std::vector<Choice> all;
  for (const Candidate& c : candidates(mesh, layer, among))
    all.push_back({c, predicted_seconds(layer_of(mesh, layer, c, machine).schedule, machine, c.lanes, among.load)});
  std::ranges::stable_sort(all, {}, told);
  const auto alike = std::ranges::partition_point(
      all, [&](const Choice& c) { return c.seconds <= (1 + kAlike) * all.front().seconds; });
  put_simplest_first(all, static_cast<size_t>(alike - all.begin()));
  return all;
}

void put_simplest_first(std::vector<Choice>& choices, size_t alike) {
  const auto first = std::ranges::min_element(choices.begin(), choices.begin() + static_cast<int64_t>(alike), {},
                                              [](const Choice& c) { return c.candidate.parts(); });
  std::rotate(choices.begin(), first, first + 1);
}

std::vector<Choice> favourites(const std::vector<Choice>& choices, size_t most) {
  std::vector<Choice> picked;
  for (const Choice& c : choices)
    if (picked.size() < most && c.seconds <= kHopeless * choices.front().seconds &&
        std::ranges::all_of(
            picked, [&](const Choice& p) { return told(p) != told(c) && !same_kind(p.candidate, c.candidate); }))
      picked.push_back(c);
  return picked;
}

std::vector<Choice> favourites_next(const std::vector<Choice>& choices, const std::vector<Choice>& tried, size_t most) {
  if (tried.empty()) return {};
  std::vector<std::pair<double, const Choice*>> corrected;
  for (const Choice& c : choices) corrected.emplace_back(c.seconds * off(c, tried), &c);
  std::ranges::stable_sort(corrected, {}, [](const auto& c) { return c.first; });
  std::vector<Choice> picked;
  const auto is_new = [&](const Choice& c) {
    const auto differs = [&](const Choice& other) {
      const bool chunks = !same_kind(other.candidate, c.candidate) || other_chunks(other.candidate, c.candidate);
      return told(other) != told(c) && chunks;
    };
    return std::ranges::all_of(tried, differs) && std::ranges::all_of(picked, differs);
  };
  for (const auto& [seconds, choice] : corrected)
    if (picked.size() < most && seconds <= kHopeless * corrected.front().first && is_new(*choice))
      picked.push_back(*choice);
  return picked;
}

std::string summary(const std::vector<Choice>& choices) {
  const bool tried = !choices.empty() && choices.front().measured > 0;
  std::vector<std::string> parts;
  std::set<const FamilySpec*> seen;
  for (const Choice& c : choices)
    if ((c.measured > 0 || !tried) && seen.insert(c.candidate.family).second)
      parts.push_back(fmt::format("{}: {}", to_string(c.candidate), human_seconds(tried ? c.measured : c.seconds)));
  return join(parts, "; ");
}

}  // namespace plait
