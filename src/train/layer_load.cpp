#include "train/layer_load.h"

#include <algorithm>
#include <numeric>

namespace plait {

LayerLoad layer_load(int64_t layer, std::vector<double> chosen, const std::vector<double>& kept) {
  LayerLoad load{.layer = layer, .chosen = std::move(chosen)};
  const double routes = std::accumulate(load.chosen.begin(), load.chosen.end(), 0.0);
  for (double n : load.chosen) load.share.push_back(routes > 0 ? n / routes : 0);
  load.dead = std::ranges::count(load.chosen, 0.0);
  if (routes == 0) return load;
  load.busiest = std::ranges::max(load.share) * static_cast<double>(load.share.size());
  load.dropped = 1 - std::accumulate(kept.begin(), kept.end(), 0.0) / routes;
  return load;
}

}  // namespace plait
