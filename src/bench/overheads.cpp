#include "bench/overheads.h"

#include <algorithm>
#include <cmath>

#include "machine/fit.h"
#include "plan/choose.h"
#include "plan/simulate.h"
#include "tune/layer_rank.h"

namespace plait {
namespace {

constexpr double kMostSeconds = 10e-3, kMostCrowding = 4;
constexpr Repeats kRepeats{.seconds = 0.5, .least = 7, .most = 25, .row = 0};

struct Size {
  int tp, esp;
  int64_t tokens, width;
};
// All messages of the first cross what ep crosses; the others gather within, too.
constexpr Size kAcross[] = {{1, 1, 256, 128}, {1, 1, 512, 192}, {1, 1, 1024, 128}};
constexpr Size kWithin[] = {{2, 2, 256, 128}, {1, 2, 512, 192}, {2, 2, 1024, 128}, {4, 2, 512, 192}};
// These compute for as long as they send.
constexpr Size kBusy[] = {{2, 2, 768, 384}, {1, 1, 512, 384}, {1, 2, 1024, 256}};

// A layer on all ranks, its messages in the ranks' own threads or on lanes.
struct LayerSample {
  ModelSizes sizes;
  MoeLayer layer;
  std::optional<NodeLanes> lanes;
  double seconds = 0;

  double told(const Machine& machine) const { return predicted_seconds(layer.schedule, machine, lanes); }

  void time(GroupClock& clock, wire::World& world) {
    RankContext context{clock.rank(), &world, at::kFloat};
    context.lanes = lanes;
    LayerRank rank(layer, sizes, context);
    seconds = clock.median([&] { rank.run(); }, kRepeats);
  }
};

LayerSample sample(const Mesh& mesh, const Size& size, int64_t chunks) {
  ModelSizes s{.sequences = 1, .positions = size.tokens, .width = size.width, .heads = 4, .kv_heads = 4};
  s.act = Act::gelu;
  s.glu = false;
  s.moe_every = 1;
  s.experts = 2 * mesh.extent(Axis::ep);
  s.top_k = 2;
  s.expert_ffn = 2 * size.width;
  s.chunks = s.chunks_backward = chunks;
  return {s, build_moe_layer(mesh, s), {}};
}

// The overhead with which what is told lies nearest to what was measured, by the sum of the logarithms' distances: a
// layer that an overhead hardly matters to has little to say about it. set(machine, o) gives the machine an overhead.
template <class Set>
double nearest(const std::vector<LayerSample>& samples, double most, Machine machine, Set set) {
  const auto distance = [&](double o) {
    set(machine, o);
    double sum = 0;
    for (const LayerSample& s : samples) sum += std::abs(std::log(s.told(machine) / s.seconds));
    return sum;
  };
  constexpr int kSteps = 8;
  double low = 0, high = most, best = 0;
  while (high - low > most / 1e3) {
    double least = INFINITY;
    const double step = (high - low) / kSteps;
    for (int i = 0; i <= kSteps; ++i) {
      const double o = low + step * i, d = distance(o);
      if (d < least) least = d, best = o;
    }
    low = std::max(0.0, best - step);
    high = std::min(most, best + step);
  }
  return best;
}

// The same for all ranks, which have the same samples: the first one seeks.
template <class Set>
double solve(const std::vector<LayerSample>& samples, double most, GroupClock& clock, const Machine& machine, Set set) {
  if (samples.empty()) return 0;
  return clock.agreed(clock.rank() == 0 ? nearest(samples, most, machine, set) : 0);
}

// The order of steps on lanes is made for this machine.
struct LaneOrder {
  const Machine& machine;
  NodeLanes nodes;
};

// Layers of these sizes that the ranks can hold, timed.
std::vector<LayerSample> timed(std::span<const Size> sizes, GroupClock& clock, wire::World& world,
                               const LaneOrder* lanes) {
  std::vector<LayerSample> all;
  const int ranks = clock.ranks();
  for (const Size& size : sizes) {
    if (ranks % std::max(size.tp, size.esp) != 0) continue;
    const Mesh mesh({.ranks = ranks, .tp = size.tp, .esp = size.esp, .ep = ranks / size.esp});
    LayerSample s = sample(mesh, size, lanes ? 2 : 1);
    if (lanes) {
      s.lanes = lanes->nodes;
      s.layer.schedule = overlapped(s.layer.schedule, lanes->machine, lanes->nodes);
    }
    s.time(clock, world);
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace

void measure_overheads(GroupClock& clock, wire::World& world, int per_node, Machine& machine) {
  if (clock.ranks() == 1) return;
  const LaneOrder lanes{machine, {per_node}};
  Level &far = machine.levels.back(), &near = machine.levels.front();
  far.meet = solve(timed(kAcross, clock, world, nullptr), kMostSeconds, clock, machine,
                   [](Machine& m, double o) { m.levels.back().meet = o; });
  far.hand_over = solve(timed(kAcross, clock, world, &lanes), kMostSeconds, clock, machine,
                        [](Machine& m, double o) { m.levels.back().hand_over = o; });
  if (machine.levels.size() > 1) {
    near.meet = solve(timed(kWithin, clock, world, nullptr), kMostSeconds, clock, machine,
                      [](Machine& m, double o) { m.levels.front().meet = o; });
    near.hand_over = solve(timed(kWithin, clock, world, &lanes), kMostSeconds, clock, machine,
                           [](Machine& m, double o) { m.levels.front().hand_over = o; });
  }
  machine.crowding = solve(timed(kBusy, clock, world, &lanes), kMostCrowding, clock, machine,
                           [](Machine& m, double o) { m.crowding = o; });
}

}  // namespace plait
