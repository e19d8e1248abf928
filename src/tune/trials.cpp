#include "tune/trials.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/statistics.h"
#include "base/stop.h"
#include "machine/fit.h"
#include "train/texts.h"
#include "tune/group_clock.h"
#include "tune/layer_rank.h"

namespace plait {
namespace {

constexpr double kNear = 1.25, kStillNear = 1.08;  // of the fastest so far
constexpr size_t kMostHeld = 6;                    // layers at the same time

struct Runner {
  Choice choice;
  std::unique_ptr<LayerRank> layer = {};
  std::vector<double> seconds = {};  // of its turns
};

std::unique_ptr<LayerRank> made(const Candidate& c, const TrialLayer& trial, RankContext context) {
  context.lanes = c.lanes;
  return std::make_unique<LayerRank>(layer_of(trial.mesh, trial.sizes, c, trial.machine),
                                     with(one_layer(trial.sizes), c), context);
}

// Anew each time: where a layer's memory lies moves its time by a few percent.
void make(std::vector<Runner>& runners, const TrialLayer& trial, RankContext context) {
  for (Runner& r : runners) r.layer.reset();
  for (Runner& r : runners) r.layer = made(r.choice.candidate, trial, context);
}

// Choices that nobody has tried, as numbers.
struct Written {
  static constexpr size_t kNumbers = 6;
  const std::vector<const FamilySpec*>& families;
  std::vector<int64_t> numbers = {};

  void add(const Choice& choice) {
    const Candidate& c = choice.candidate;
    numbers.insert(numbers.end(),
                   {std::ranges::find(families, c.family) - families.begin(), c.fuse == Fuse::yes, c.chunks,
                    c.chunks_backward, c.lanes ? c.lanes->ranks_per_node : 0, std::llround(1e12 * choice.seconds)});
  }
  std::vector<Choice> read() const {
    std::vector<Choice> all;
    for (auto n = numbers.begin(); n != numbers.end(); n += kNumbers)
      all.push_back({{families[static_cast<size_t>(n[0])], n[1] ? Fuse::yes : Fuse::no, n[2], n[3],
                      n[4] ? std::optional(NodeLanes{static_cast<int>(n[4])}) : std::nullopt},
                     static_cast<double>(n[5]) * 1e-12});
    return all;
  }
};

// A choice with what was measured at first, and the bytes that it takes of a rank.
struct Glanced {
  Choice choice;
  double bytes;
};

// Runs that all ranks begin together, as they would not in a row: ranks that run ahead hide what the others wait for.
std::function<void()> work(LayerRank& layer, GroupClock& clock) {
  return [&clock, &layer] {
    clock.meet();
    layer.run();
  };
}

// Rank 0's line of what is tried now.
void say(const TellTrial& tell, const RankContext& context, const std::string& line) {
  if (context.rank == 0 && tell) tell(line);
}

// Of these, what rank 0 would try, one after another.
void glance(std::vector<Choice> choices, const TrialLayer& layer, RankContext context, std::vector<Glanced>& all) {
  if (context.rank == 0 && layer.fits)
    std::erase_if(choices, [&](const Choice& c) { return !layer.fits(c.candidate); });
  GroupClock clock(context.rank, *context.world);
  const double row = layer.seconds / 250;
  for (Choice choice : of_first(*wire::everyone(*context.world, context.rank), choices, layer.families)) {
    stop::point();
    const std::unique_ptr<LayerRank> tried = made(choice.candidate, layer, context);
    choice.measured = clock.median(work(*tried, clock), {.seconds = 4 * row, .least = 1, .most = 3, .row = row});
    all.push_back({choice, clock.agreed(static_cast<double>(tried->executor().memory().total()))});
  }
}

// The favourites, the fastest first.
std::vector<Glanced> glance(const std::vector<Choice>& choices, const TrialLayer& layer, RankContext context,
                            const TellTrial& tell) {
  std::vector<Glanced> all;
  const std::vector<Choice> kinds = favourites(choices, layer.most - layer.most / 3);
  say(tell, context, fmt::format("tries {} of {} schedules of a layer", kinds.size(), choices.size()));
  glance(kinds, layer, context, all);
  std::vector<Choice> tried;
  for (const Glanced& g : all) tried.push_back(g.choice);
  const std::vector<Choice> others = favourites_next(choices, tried, layer.most - tried.size());
  say(tell, context, fmt::format("tries {} more", others.size()));
  glance(others, layer, context, all);
  std::ranges::stable_sort(all, {}, [](const Glanced& g) { return g.choice.measured; });
  return all;
}

// The runners in turns; those that are far from the fastest then leave, in front of those that have left before.
struct Look {
  Repeats repeats;
  double near;
};
void look(std::vector<Runner>& runners, std::vector<Choice>& left, GroupClock& clock, const Look& look) {
  std::vector<std::function<void()>> works;
  stop::point();
  for (Runner& r : runners) works.push_back(work(*r.layer, clock));
  const std::vector<std::vector<double>> times = clock.in_turns(works, look.repeats);
  for (size_t i = 0; i < runners.size(); ++i) {
    Runner& r = runners[i];
    r.seconds.insert(r.seconds.end(), times[i].begin(), times[i].end());
    r.choice.measured = median(r.seconds);
  }
  std::ranges::stable_sort(runners, {}, [](const Runner& r) { return r.choice.measured; });
  for (; runners.back().choice.measured > look.near * runners.front().choice.measured; runners.pop_back())
    left.insert(left.begin(), runners.back().choice);
}

}  // namespace

std::vector<Choice> of_first(wire::Group& everyone, const std::vector<Choice>& mine,
                             const std::vector<const FamilySpec*>& families) {
  Written written{families};
  for (const Choice& choice : mine) written.add(choice);
  written.numbers.resize(numbers_of_all(everyone, written.numbers.size()).front());
  if (written.numbers.empty()) return {};
  everyone.broadcast(at::from_blob(written.numbers.data(), {static_cast<int64_t>(written.numbers.size())}, at::kLong),
                     0);
  return written.read();
}

std::vector<Choice> try_out(const std::vector<Choice>& choices, const TrialLayer& layer, RankContext context,
                            const TellTrial& tell) {
  if (choices.size() < 2 || layer.most < 2) return {};
  const std::vector<Glanced> all = glance(choices, layer, context, tell);
  if (all.size() < 2) return {};
  std::vector<Runner> runners;
  std::vector<Choice> left;  // fastest first
  double held = 0;
  for (const auto& [choice, bytes] : all) {
    const bool fits =
        runners.size() < 2 || (runners.size() < kMostHeld && held + bytes <= static_cast<double>(layer.bytes));
    if (!fits || choice.measured > kNear * all.front().choice.measured) {
      left.push_back(choice);
      continue;
    }
    held += bytes;
    runners.push_back({choice});
  }
  GroupClock clock(context.rank, *context.world);
  const double row = layer.seconds / 100;
  for (const Look& each : {Look{{.seconds = 0.4 * layer.seconds, .least = 4, .most = 20, .row = row}, kStillNear},
                           Look{{.seconds = 0.6 * layer.seconds, .least = 5, .most = 20, .row = row}, 1}}) {
    if (runners.size() == 1) break;
    say(tell, context, fmt::format("runs the {} fastest on", runners.size()));
    make(runners, layer, context);
    look(runners, left, clock, each);
  }
  // Chance favours one of many that are alike; the simplest has the least to go wrong.
  const auto alike = std::ranges::partition_point(runners, [&](const Runner& r) {
    return r.choice.measured <= (1 + kAlikeTried) * runners.front().choice.measured;
  });
  std::vector<Choice> tried;
  for (const Runner& r : runners) tried.push_back(r.choice);
  put_simplest_first(tried, static_cast<size_t>(alike - runners.begin()));
  tried.insert(tried.end(), left.begin(), left.end());
  return tried;
}

}  // namespace plait
