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

// Of equals the first wins: those that send least and are simplest stand in front.
constexpr Family kFamilies[] = {Family::sharded, Family::s1, Family::s2, Family::dtd, Family::ted, Family::parm};

bool slices(Family family) { return family == Family::dtd || family == Family::s2; }
bool fuses(Family family) { return family == Family::s1 || family == Family::s2 || family == Family::sharded; }

struct Axes {
  int tp, esp, ep;
};
Axes axes(const Mesh& mesh) { return {mesh.extent(Axis::tp), mesh.extent(Axis::esp), mesh.extent(Axis::ep)}; }

// Tokens that one rank's gate sees.
int64_t gated_tokens(const Mesh& mesh, const ModelSizes& s, Family family) {
  const int64_t tokens = s.tokens() / mesh.extent(Axis::dp);
  if (family == Family::parm) return tokens * mesh.extent(Axis::esp);
  return family == Family::sharded || family == Family::s1 ? tokens / mesh.extent(Axis::tp) : tokens;
}

// Copies of a token must go where the token goes, and a gate must not take them for others.
bool copies_count_as_tokens(const ModelSizes& s) {
  if (s.route().chooser != Chooser::token || s.noise || s.jitter > 0 || s.aux_group > 0) return false;
  return s.rule.sample == Sample::none && (s.capacity == 0 || s.capacity >= s.group);
}

bool layout_fits(const Mesh& mesh, const ModelSizes& s, const Candidate& c) {
  const auto [tp, esp, ep] = axes(mesh);
  if ((c.family == Family::ted || c.family == Family::dtd) && tp != esp) return false;
  if (c.fuse == Fuse::yes && !(fuses(c.family) && ep > 1 && esp > 1)) return false;
  if (c.family == Family::parm && tp > 1 && !copies_count_as_tokens(s)) return false;
  // Slots and the gather over esp share a stack.
  return !(c.family == Family::s2 && s.capacity > 0 && c.fuse == Fuse::no && tp > esp);
}

bool dispatch_fits(const Mesh& mesh, const ModelSizes& s, Family family) {
  if (s.dispatch == Dispatch::direct) return true;
  if (family == Family::dtd) return false;
  if (s.dispatch == Dispatch::levels)
    return !(family == Family::s2 && s.capacity > 0 && mesh.extent(Axis::tp) > mesh.sizes().node);
  return family != Family::parm && !(family == Family::s2 && s.slice_rows);
}

// Groups are cut at the same tokens, and slots are as many.
bool same_groups(const Mesh& mesh, const ModelSizes& s, const Candidate& c) {
  const int64_t gated = gated_tokens(mesh, s, c.family);
  if (s.group > 0 && gated % s.group != 0) return false;
  if (s.aux_group > 0 && s.gate->loss != AuxLoss::of_each_sequence && gated % s.aux_group != 0) return false;
  const int64_t parts = std::max(c.chunks, c.chunks_backward) * (slices(c.family) ? mesh.extent(Axis::tp) : 1);
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

std::string_view name(Family family) {
  constexpr std::string_view names[] = {"ted", "dtd", "parm", "s1", "s2", "sharded"};
  return names[static_cast<int>(family)];
}

std::string to_string(const Candidate& c) {
  std::string text = fmt::format("{}{}", name(c.family), c.fuse == Fuse::yes ? " fused" : "");
  if (c.chunks != c.chunks_backward)
    text += fmt::format(", {} chunk{} ({} backward)", c.chunks, c.chunks == 1 ? "" : "s", c.chunks_backward);
  else if (c.chunks > 1)
    text += fmt::format(", {} chunks", c.chunks);
  return text + (c.lanes > 0 ? ", lanes" : "");
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
  if (c.lanes > 0) layer.schedule = overlapped(layer.schedule, machine, c.lanes);
  return layer;
}

bool legal(const Mesh& mesh, const ModelSizes& sizes, const Candidate& c) {
  return chunks_nest(c) && layout_fits(mesh, sizes, c) && dispatch_fits(mesh, sizes, c.family) &&
         same_groups(mesh, sizes, c);
}

std::vector<Candidate> candidates(const Mesh& mesh, const ModelSizes& sizes, int ranks_per_node) {
  std::vector<Candidate> all;
  const auto add = [&](const Candidate& c) {
    if (legal(mesh, sizes, c)) all.push_back(c);
  };
  for (Family family : kFamilies)
    for (Fuse fuse : {Fuse::no, Fuse::yes}) {
      add({family, fuse});
      if (ranks_per_node == 0) continue;
      for (int64_t forward = 1; forward <= kMostChunks; ++forward)
        for (int64_t backward = 1; backward <= kMostChunks; ++backward)
          add({family, fuse, forward, backward, ranks_per_node});
    }
  return all;
}

double predicted_seconds(const Schedule& s, const Machine& machine, int ranks_per_node, const LoadProfile& load) {
  std::vector<StepCost> costs = step_costs(s, check(s), machine, load);
  std::vector<double> after(costs.size(), 0);
  for (size_t i = 0; i < costs.size(); ++i) {
    if (ranks_per_node == 0 || costs[i].lane == kComputeLane) continue;
    const Level& level = machine.levels[static_cast<size_t>(costs[i].lane - 1)];
    costs[i].seconds -= level.meet;  // others travel meanwhile
    after[i] = level.meet + level.hand_over;
  }
  Timing timing = predicted(s, costs);
  timing.after = std::move(after);
  std::ranges::fill(timing.lanes, kComputeLane);
  if (ranks_per_node > 0)
    std::ranges::transform(lanes(s, ranks_per_node), timing.lanes.begin(),
                           [](Lane lane) { return static_cast<int>(lane); });
  const Timeline alone = simulate(s, timing);
  if (ranks_per_node == 0) return alone.makespan;
  slow_down_overlaps(s, machine, alone, timing);
  return simulate(s, timing).makespan;
}

std::vector<Choice> choices(const Mesh& mesh, const ModelSizes& sizes, const Machine& machine, int ranks_per_node,
                            const LoadProfile& load) {
  const ModelSizes layer = one_layer(sizes);
  std::vector<Choice> all;
  for (const Candidate& c : candidates(mesh, layer, ranks_per_node))
    all.push_back({c, predicted_seconds(layer_of(mesh, layer, c, machine).schedule, machine, c.lanes, load)});
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
  std::set<Family> seen;
  for (const Choice& c : choices)
    if ((c.measured > 0 || !tried) && seen.insert(c.candidate.family).second)
      parts.push_back(fmt::format("{}: {}", to_string(c.candidate), human_seconds(tried ? c.measured : c.seconds)));
  return join(parts, "; ");
}

}  // namespace plait
