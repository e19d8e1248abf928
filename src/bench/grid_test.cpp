#include "bench/grid.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "mesh/mesh.h"

namespace plait {
namespace {

TEST(Grid, has_ninety_six_layers_and_every_pair_as_often) {
  for (const auto& [size, each] : {std::pair{GridSize::full, 12}, std::pair{GridSize::quick, 2}})
    for (int ranks : {4, 8}) {
      std::map<std::pair<int, int>, int> pairs;
      for (const GridLayer& l : grid_layers(ranks, size)) ++pairs[{l.tp, l.esp}];
      EXPECT_EQ(pairs.size(), 8u);
      for (const auto& [pair, count] : pairs) EXPECT_EQ(count, each) << pair.first << pair.second;
    }
  EXPECT_EQ(grid_layers(2, GridSize::full).size(), 36u);  // (1, 2), (2, 1), (2, 2)
  EXPECT_TRUE(grid_layers(1, GridSize::full).empty());
}

TEST(Grid, lays_every_layer_on_a_mesh_and_names_it_once) {
  std::set<std::string> ids;
  for (const GridLayer& l : grid_layers(8, GridSize::full)) {
    EXPECT_NO_THROW(Mesh({.ranks = l.ranks, .tp = l.tp, .esp = l.esp, .ep = l.ep})) << l.id;
    EXPECT_EQ(l.experts % l.ep, 0) << l.id;
    EXPECT_EQ(l.tokens() % l.tp, 0) << l.id;
    EXPECT_LE(l.top_k, l.experts) << l.id;
    EXPECT_TRUE(ids.insert(l.id).second) << l.id;
  }
}

TEST(Grid, tells_a_layer_in_one_line) {
  EXPECT_EQ(grid_layers(4, GridSize::full)[7].title(), "2 x 64 of 128, 2 experts of 512, top-2, factor 1.2");
  EXPECT_EQ(grid_layers(4, GridSize::full)[0].title(), "1 x 64 of 128, 4 experts of 256, top-1, nothing dropped");
}

}  // namespace
}  // namespace plait
