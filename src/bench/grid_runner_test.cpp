#include "bench/grid_runner.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <set>

#include "base/random.h"
#include "plan/choose.h"
#include "train/trainer.h"
#include "wire/ranks.h"

namespace plait {
namespace {

// The layer of this id, with fewer tokens and columns.
GridLayer small(int ranks, const std::string& id) {
  for (GridLayer layer : grid_layers(ranks, GridSize::full))
    if (layer.id == id) {
      layer.positions = 16;
      layer.width = 16;
      layer.hidden = 16;
      return layer;
    }
  throw std::runtime_error("no layer " + id);
}

// Every rank must have the same; under a launcher this process has one of them.
GridResult measured(const GridLayer& layer, const GridSetting& setting) {
  GridResult result;
  std::mutex mutex;
  wire::run_ranks({.ranks = layer.ranks, .lanes = 2}, [&](int rank, wire::World& world) {
    GridResult mine = bench_grid_layer(layer, setting, {rank, &world});
    std::vector<int> members(static_cast<size_t>(layer.ranks));
    std::iota(members.begin(), members.end(), 0);
    const at::Tensor print = at::full({1}, static_cast<int64_t>(hash_name(grid_lines({{}, {mine}}))), at::kLong);
    const at::Tensor all = at::empty({layer.ranks, 1}, at::kLong);
    world.group(rank, members)->all_gather(print, all);
    for (int r = 0; r < layer.ranks; ++r) EXPECT_EQ(all[r].item<int64_t>(), print.item<int64_t>()) << layer.id;
    const std::lock_guard lock(mutex);
    result = std::move(mine);
  });
  return result;
}

// bench_grid_layer throws where a variant computes something else than the first one.
TEST(BenchGrid, runs_every_family_of_every_pair_and_compares_them) {
  for (const char* id : {"t1e2-02", "t1e4-01", "t2e1-02", "t2e2-02", "t2e4-01", "t4e1-02", "t4e2-01", "t4e4-02"}) {
    const GridResult result = measured(small(4, id), {.rounds = 1});
    EXPECT_EQ(result.rows.size(), result.layer.tp == result.layer.esp ? 9u : 7u);
    for (const GridRow& row : result.rows) {
      EXPECT_TRUE(row.ran()) << id << row.variant << row.note;
      EXPECT_LT(row.differs, 1e-5) << id << row.variant << row.note;
      EXPECT_TRUE(row.low <= row.ms && row.ms <= row.high);
    }
  }
}

TEST(BenchGrid, says_which_family_a_capacity_leaves_out) {
  for (const char* id : {"t2e2-07", "t4e1-08", "t1e2-10", "t4e2-11"}) {
    const GridResult result = measured(small(4, id), {.rounds = 1});
    std::set<std::string> out;
    for (const GridRow& row : result.rows)
      if (!row.ran())
        out.insert(row.variant);
      else
        EXPECT_FALSE(row.differs > 1e-5) << id << row.variant;
    const bool unfused = result.layer.tp <= result.layer.esp, copies = result.layer.experts == 2;
    EXPECT_EQ(out.contains("s2"), !unfused) << id;
    EXPECT_EQ(out.contains("parm"), !copies) << id;
    for (const std::string& variant : out) EXPECT_TRUE(variant == "s2" || variant == "parm") << id << variant;
  }
}

TEST(BenchGrid, times_equal_lists_once) {
  const GridResult result = measured(small(4, "t2e1-02"), {.rounds = 2});
  EXPECT_EQ(result.find("s1 fused")->ms, result.find("s1")->ms);
  EXPECT_EQ(result.find("s1 fused")->high, result.find("s1")->high);
  EXPECT_EQ(result.find("parm")->schedule, "parm");
}

TEST(BenchGrid, predicts_from_a_machine) {
  const GridLayer layer = small(4, "t2e2-02");
  Machine slow = default_machine(2);
  for (MessageCost& cost : slow.levels[1].cost) cost.alpha = 1e-3;
  const GridResult result = measured(layer, {.rounds = 1, .trials = 0, .machine = default_machine(2)});
  const GridResult slower = measured(layer, {.rounds = 1, .trials = 0, .machine = slow});
  for (const GridRow& row : result.rows) {
    EXPECT_GT(row.predicted_ms, 0) << row.variant;
    EXPECT_GT(slower.find(row.variant)->predicted_ms, row.predicted_ms + 3) << row.variant;
  }
}

// Seven families, auto and three more.
constexpr size_t kWays = 11;

TEST(BenchGrid, without_trials_auto_is_what_is_predicted_to_be_fastest) {
  const GridResult result =
      measured(small(4, "t2e1-02"), {.lanes = NodeLanes{2}, .rounds = 1, .trials = 0, .machine = default_machine(2)});
  EXPECT_EQ(result.rows.size(), kWays);
  EXPECT_EQ(result.find("predicted"), nullptr);
  for (const GridRow& row : result.rows)
    EXPECT_LE(result.find("auto")->predicted_ms, (1 + kAlike) * row.predicted_ms) << row.variant;
}

// Which of its favourites auto takes is for the clock to say. Two are left to show in any case, as those with lanes
// differ from the families, and auto and the prediction take one each.
TEST(BenchGrid, runs_what_is_predicted_what_auto_takes_and_what_it_likes_next) {
  const GridLayer layer = small(4, "t2e1-02");
  const GridSetting setting{
      .lanes = NodeLanes{2}, .rounds = 1, .trials = 16, .trial_seconds = 0.02, .machine = default_machine(2)};
  const RunShape shape = run_shape(grid_config(layer, setting, usual_variant()));
  const std::vector<Choice> tried =
      favourites(choices(shape.mesh, shape.sizes, *setting.machine, {.lanes = NodeLanes{2}}), 11);
  ASSERT_GE(std::ranges::count_if(tried, [](const Choice& c) { return c.candidate.lanes.has_value(); }), 4);
  const GridResult result = measured(layer, setting);
  std::set<std::string> schedules;
  for (const GridRow& row : result.rows) {
    EXPECT_LE(result.find("predicted")->predicted_ms, (1 + kAlike) * row.predicted_ms) << row.variant;
    if (row.variant.starts_with("auto ")) {
      EXPECT_TRUE(schedules.insert(row.schedule).second) << row.schedule;
      EXPECT_TRUE(row.ran());
      EXPECT_LT(row.differs, 1e-5);
    }
  }
  EXPECT_GE(schedules.size(), 2u);
  EXPECT_LE(schedules.size(), 3u);
  EXPECT_EQ(result.rows.size(), 9 + schedules.size());  // seven families, auto and predicted
}

}  // namespace
}  // namespace plait
