#include "bench/grid_peer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/errors.h"
#include "wire/ranks.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

// A program that notes what it is asked and answers every line with `answer`.
struct Script {
  explicit Script(const std::string& answer) {
    fs::create_directories(folder);
    std::ofstream(program) << "#!/bin/sh\nwhile read line; do echo \"$line\" >> " << asked.string() << "\n echo '"
                           << answer << "'; done\n";
    fs::permissions(program, fs::perms::owner_all);
  }
  ~Script() { fs::remove_all(folder); }

  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::ifstream file(asked);
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  fs::path folder = fs::temp_directory_path() /
                    (std::string("plait_peer_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::path program = folder / "peer", asked = folder / "asked";
};

Config layer() { return grid_config(grid_layers(4, GridSize::full)[43], {}, {"", {}}); }  // t2e2-08

GridRow rounds(const Script& script, int number) {
  GridPeer peer(script.program.string() + " 2  2", "other");
  peer.begin(layer());
  for (int i = 0; i < number; ++i) {
    peer.ask();
    while (!peer.answered()) std::this_thread::yield();
    peer.take();
  }
  return peer.row();
}

TEST(GridPeer, is_told_the_layer_of_a_data_rank) {
  const Script script("{\"ms\": [30, 10, 20]}");
  const GridRow row = rounds(script, 2);
  EXPECT_EQ(row.variant, "other");
  EXPECT_EQ(row.ms, 20);
  EXPECT_TRUE(row.peer());
  ASSERT_EQ(script.lines().size(), 2u);
  EXPECT_EQ(script.lines()[0],
            "{\"tokens_per_rank\": 128, \"hidden\": 128, \"ffn\": 512, \"experts\": 2, \"topk\": 2, \"ep\": 2, \"tp\": "
            "2, \"esp\": 2, \"capacity_factor\": 1.2, \"act\": \"gelu\", \"glu\": false, \"steps\": 2, \"warmup\": 2}");
  EXPECT_NE(script.lines()[1].find("\"steps\": 3, \"warmup\": 1}"), std::string::npos);
}

TEST(GridPeer, is_not_asked_again_for_what_it_skips) {
  const Script script("{\"skip\": \"esp\"}");
  const GridRow row = rounds(script, 3);
  EXPECT_FALSE(row.ran());
  EXPECT_EQ(row.note, "esp");
  EXPECT_EQ(script.lines().size(), 1u);
}

TEST(GridPeer, that_refuses_a_line_is_said) {
  const Script script("{\"error\": \"no such act\"}");
  EXPECT_THROW(rounds(script, 1), InputError);
  EXPECT_THROW(GridPeer(" ", "other"), InputError);
}

TEST(GridPeer, all_ranks_sleep_until_the_first_says_it_is_over) {
  std::atomic<int> asked = 0, woken = 0;
  wire::run_ranks({.ranks = 3}, [&](int rank, wire::World& world) {
    const auto everyone = world.group(rank, {0, 1, 2});
    sleep_until(*everyone, [&] {
      EXPECT_EQ(rank, 0);
      EXPECT_EQ(woken, 0);
      return ++asked == 3;
    });
    ++woken;
  });
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(woken, 3);
}

}  // namespace
}  // namespace plait
