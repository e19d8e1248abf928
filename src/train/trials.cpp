#include "train/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "plan/fit.h"
#include "plan/simulate.h"
#include "train/group_clock.h"
#include "train/layer_rank.h"

namespace plait {
namespace {

// Each look is longer, at those alone that came near the fastest in the one before.
struct Look {
  Repeats repeats;
  double near;
};
std::vector<Look> looks(double seconds) {
  return {{{.seconds = 0, .least = 2, .most = 2, .row = seconds / 200}, 1.25},
          {{.seconds = seconds * 0.4, .least = 4, .most = 20, .row = seconds / 100}, 1.08},
          {{.seconds = seconds * 0.6, .least = 5, .most = 20, .row = seconds / 100}, 1}};
}

struct Runner {
  Choice choice;
  std::unique_ptr<LayerRank> layer;
};

Runner runner(const Choice& choice, const TrialLayer& trial, const LayerData& data, RankContext context) {
  const Candidate& c = choice.candidate;
  MoeLayer layer = build_moe_layer(trial.mesh, with(one_layer(trial.sizes), c));
  if (c.lanes > 0) layer.schedule = overlapped(layer.schedule, trial.machine, c.lanes);
  context.ranks_per_node = c.lanes;
  return {choice, std::make_unique<LayerRank>(layer, data, context)};
}

void time_in_turns(std::vector<Runner>& runners, GroupClock& clock, Repeats repeats) {
  std::vector<std::function<void()>> works;
  for (Runner& r : runners) works.push_back([&r] { r.layer->run(); });
  const std::vector<std::vector<double>> times = clock.in_turns(works, repeats);
  for (size_t i = 0; i < runners.size(); ++i) runners[i].choice.measured = median(times[i]);
  std::ranges::stable_sort(runners, {}, [](const Runner& r) { return r.choice.measured; });
}

}  // namespace

std::vector<Choice> try_out(std::vector<Choice> choices, const TrialLayer& layer, RankContext context,
                            const TellTrial& tell) {
  if (choices.size() < 2) return choices;
  const LayerData data = layer_data(with(one_layer(layer.sizes), choices.front().candidate));
  GroupClock clock(context.rank, *context.world);
  std::vector<Runner> runners;
  for (const Choice& choice : choices) runners.push_back(runner(choice, layer, data, context));
  std::vector<Choice> left;  // fastest first
  for (const Look& look : looks(layer.seconds)) {
    if (context.rank == 0 && tell) tell(fmt::format("tries {} schedules of a layer", runners.size()));
    time_in_turns(runners, clock, look.repeats);
    const double fastest = runners.front().choice.measured;
    for (; runners.back().choice.measured > look.near * fastest; runners.pop_back())
      left.insert(left.begin(), runners.back().choice);
    if (runners.size() == 1) break;
  }
  choices.clear();
  for (const Runner& r : runners) choices.push_back(r.choice);
  choices.insert(choices.end(), left.begin(), left.end());
  return choices;
}

}  // namespace plait
