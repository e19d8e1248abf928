// How evenly the routes of a step fell on the experts of a layer, over the world and all micro-batches.
#pragma once
#include <cstdint>
#include <vector>

namespace plait {

struct LayerLoad {
  int64_t layer = 0;
  std::vector<double> chosen;  // routes of each expert before dropping
  std::vector<double> share;   // of all routes; no route: all 0
  double busiest = 0;          // the greatest share as a multiple of a fair one
  double dropped = 0;          // share of the routes
  int64_t dead = 0;            // experts that got no route
};

// By expert: routes before and after dropping.
LayerLoad layer_load(int64_t layer, std::vector<double> chosen, const std::vector<double>& kept);

}  // namespace plait
