#include "train/layer_load.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(LayerLoad, says_who_is_busiest_who_is_dead_and_what_was_dropped) {
  const LayerLoad load = layer_load(3, {6, 0, 2, 0}, {4, 0, 2, 0});
  EXPECT_EQ(load.layer, 3);
  EXPECT_EQ(load.share, (std::vector<double>{.75, 0, .25, 0}));
  EXPECT_EQ(load.busiest, 3);
  EXPECT_EQ(load.dropped, .25);
  EXPECT_EQ(load.dead, 2);
}

TEST(LayerLoad, of_no_route_at_all_is_all_dead) {
  const LayerLoad load = layer_load(0, {0, 0}, {0, 0});
  EXPECT_EQ(load.share, (std::vector<double>{0, 0}));
  EXPECT_EQ(load.busiest, 0);
  EXPECT_EQ(load.dropped, 0);
  EXPECT_EQ(load.dead, 2);
}

}  // namespace
}  // namespace plait
