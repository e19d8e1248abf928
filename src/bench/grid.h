// The grid of MoE layers that `plait bench grid` runs: a fixed list for each number of ranks, in which every pair
// (tp, esp) of {1, 2, 4} without (1, 1) has as many layers as any other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace plait {

struct GridLayer {
  std::string id;  // "t2e4-07": tp, esp and a number within the pair
  int ranks = 1, tp = 1, esp = 1, ep = 1;
  int64_t sequences = 1, positions = 1;  // of one data rank
  int64_t width = 1, hidden = 1;         // D, F
  int64_t experts = 1, top_k = 1;
  double factor = 0;  // room of an expert for each row of its fair share; 0: nothing is dropped
  bool operator==(const GridLayer&) const = default;

  int64_t tokens() const { return sequences * positions; }  // of one data rank
  // "1 x 128 of 256, 4 experts of 1024, top-2, factor 1.2"
  std::string title() const;
};

// REQUIRES ranks >= 1. Pairs that do not divide the ranks are left out, so there is none for one rank.
enum class GridSize { full, quick };  // 12 layers a pair, or 2
std::vector<GridLayer> grid_layers(int ranks, GridSize size);

}  // namespace plait
