// What a board remembers, and what is told of several.
#include "launch/board.h"

#include <gtest/gtest.h>

#include <memory>

namespace plait::launch {
namespace {

TEST(BoardText, keeps_what_fits) {
  BoardText<2> text;
  EXPECT_EQ(text.get(), "");
  text.set("0123456789");
  EXPECT_EQ(text.get(), "0123456789");
  text.set("0123456789abcdefgh");
  EXPECT_EQ(text.get(), "0123456789abcde");
  text.clear();
  EXPECT_EQ(text.get(), "");
}

TEST(LaneBoard, remembers_the_last_sixteen_operations) {
  const auto lane = std::make_unique<LaneBoard>();
  for (int i = 0; i < 20; ++i) {
    lane->begin_step("step " + std::to_string(i));
    if (i < 19) lane->end_step();
  }
  const auto last = lane->recent();
  ASSERT_EQ(last.size(), 16u);
  EXPECT_EQ(last.front()->step.get(), "step 4");
  EXPECT_EQ(last.back()->step.get(), "step 19");
  EXPECT_GT(last.front()->ended, 0);
  EXPECT_EQ(lane->open(), last.back());
}

TEST(LaneBoard, counts_a_collective_as_part_of_its_step) {
  const auto lane = std::make_unique<LaneBoard>();
  lane->begin_step("gather");
  lane->begin_collective("ranks 0, 1", {Collective::all_gather, 7, 64});
  lane->end_collective();
  EXPECT_NE(lane->open(), nullptr) << "the step goes on";
  lane->end_step();
  lane->begin_collective("ranks 0, 1", {Collective::barrier, 8, 0});
  EXPECT_EQ(lane->recent().size(), 2u);
  EXPECT_EQ(lane->open()->sequence, 8u);
  lane->end_collective();
  EXPECT_EQ(lane->open(), nullptr);
}

TEST(Report, says_who_has_arrived_and_who_has_not) {
  std::vector<std::unique_ptr<RankBoard>> owned;
  std::vector<const RankBoard*> boards;
  for (int r = 0; r < 3; ++r) {
    owned.push_back(std::make_unique<RankBoard>());
    owned.back()->name.set("rank " + std::to_string(r));
    owned.back()->node.set("a");
    owned.back()->where.set("training step 3");
    boards.push_back(owned.back().get());
  }
  owned[0]->lanes[2].begin_step("exchange -> %l1.rows");
  owned[0]->lanes[2].begin_collective("ranks 0-4", {Collective::all_to_all, 17, 1234});
  owned[0]->lanes[2].arrived(1u << 4);
  owned[1]->lanes[2].begin_collective("ranks 0-4", {Collective::all_to_all, 17, 1234});
  owned[2]->failure.set("no experts left");
  owned[2]->state = RankBoard::State::failed;
  const std::string text = report(boards, std::vector{0, 1, 2});
  EXPECT_NE(
      text.find("rank 0 on node a, in training step 3\n    inter lane waits in all_to_all 17 of ranks 0-4: arrived "
                "ranks 0, 1, 4; not arrived ranks 2, 3\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("exchange -> %l1.rows: all_to_all 17 of ranks 0-4, 1234 bytes [not ended"), std::string::npos);
  EXPECT_NE(text.find("rank 2 on node a, in training step 3, failed: no experts left\n"), std::string::npos) << text;
}

TEST(RanksText, shortens_runs) {
  EXPECT_EQ(ranks_text(std::vector{3}), "rank 3");
  EXPECT_EQ(ranks_text(std::vector{0, 2}), "ranks 0, 2");
  EXPECT_EQ(ranks_text(std::vector{4, 5, 6, 7}), "ranks 4-7");
  EXPECT_EQ(ranks_text(std::vector{1, 0}), "ranks 1, 0");
}

}  // namespace
}  // namespace plait::launch
