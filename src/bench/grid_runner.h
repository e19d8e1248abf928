// One layer of the grid, in every way that a MoE schedule can be written: the ways take turns, so that whatever
// disturbs the machine disturbs all of them.
#pragma once
#include <functional>
#include <optional>

#include "bench/grid_table.h"
#include "config/config.h"
#include "machine/machine.h"
#include "run/executor.h"

namespace plait {

// What all layers of a run have in common.
struct GridSetting {
  std::optional<NodeLanes> lanes = {};  // that stand to choose
  int64_t threads = 1, rounds = 5;
  int64_t trials = 16;                      // favourites that auto runs before it takes one
  double trial_seconds = 3;                 // see TrialLayer
  std::vector<std::string> overrides = {};  // section.key=value, for every layer
  std::optional<Machine> machine = {};      // what predictions are made from
  Launch launch = {};                       // its nodes are those of the layers
};

// A way to run a layer: a name, and what it sets in the config.
struct LayerVariant {
  std::string name;
  std::vector<std::string> keys;
};
// Every family fused and unfused, where both exist; what others are compared with stands first.
std::vector<LayerVariant> family_variants(const GridLayer& layer);
LayerVariant usual_variant();  // the family that a config gets which names none

// Throws InputError where the layer cannot run so.
Config grid_config(const GridLayer& layer, const GridSetting& setting, const LayerVariant& variant);

// Every rank calls it with the group of all, after each round.
using BetweenRounds = std::function<void(wire::Group& everyone)>;

// Every rank of the world calls it; all get the same rows. A step is the slowest rank's, a round the median of its
// steps; a row has the quartiles of the rounds. A variant whose list is that of an earlier one takes its times. Throws
// ContractError where the output or a gradient of a variant differs from those of the first.
GridResult bench_grid_layer(const GridLayer& layer, const GridSetting& setting, RankContext context,
                            const BetweenRounds& between = {});

}  // namespace plait
