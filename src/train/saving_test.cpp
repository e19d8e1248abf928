#include "train/saving.h"

#include <ATen/ops/full.h>

#include <cmath>
#include <filesystem>
#include <mutex>

#include "base/testing/scratch_folder.h"
#include "wire/ranks.h"

namespace plait {
namespace {

using Outcome = SaveResult::Outcome;

CheckpointContent content(double last) {
  return {.state = {.step = 3, .seed = 1, .config = ""},
          .model = {{"a", {4, 3}, at::kFloat}, {"b", {2}, at::kDouble}},
          .optimizer = {{"a.m", {4, 3}, at::kFloat}, {"count", {1}, at::kLong}, {"b.m", {2}, at::kDouble}},
          .get = [last](const std::string& name) {
            if (name == "b.m") return at::full({2}, last, at::kDouble);
            if (name == "count") return at::full({1}, 7, at::kLong);
            return name == "b" ? at::full({2}, 0.5, at::kDouble) : at::full({4, 3}, 0.25, at::kFloat);
          }};
}

// What each of four ranks is told, after a save whose gathers are collectives.
std::vector<SaveResult> saved_by_four(const std::string& dir, double last) {
  std::vector<SaveResult> results(4);
  wire::run_ranks({.ranks = 4, .timeout = wire::Seconds(60)}, [&](int rank, wire::World& world) {
    const auto everyone = wire::everyone(world, rank);
    CheckpointContent mine = content(last);
    mine.get = [&, get = mine.get](const std::string& name) {
      everyone->barrier();
      return get(name);
    };
    results[static_cast<size_t>(rank)] = save_together(*everyone, mine, {.dir = dir});
    everyone->barrier();
  });
  return results;
}

TEST(Saving, by_all_ranks_leaves_one_checkpoint) {
  const ScratchFolder folder;
  for (const SaveResult& result : saved_by_four(folder.str(), 2))
    EXPECT_EQ(result.outcome, Outcome::saved) << result.why;
  const Checkpoint checkpoint(*find_latest(folder.str()));
  const CheckpointContent written = content(2);
  checkpoint.require(written.model, written.optimizer);
  for (const auto* list : {&written.model, &written.optimizer})
    for (const TensorInfo& info : *list)
      EXPECT_TRUE(checkpoint.read(info.name).equal(written.get(info.name))) << info.name;
}

TEST(Saving, that_the_disk_refuses_is_told_to_all_ranks_and_leaves_nothing) {
  const ScratchFolder folder;
  spill(folder / "file", "");
  const auto results = saved_by_four(folder / "file/run", 2);
  for (const SaveResult& result : results) EXPECT_EQ(result.outcome, Outcome::refused);
  EXPECT_NE(results[0].why.find("cannot save a checkpoint in '" + (folder / "file/run") + "'"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.str()), {}), 1);
}

TEST(Saving, keeps_what_is_not_finite_from_the_disk) {
  for (const double last : {NAN, INFINITY, -INFINITY}) {
    const ScratchFolder folder;
    const auto results = saved_by_four(folder.str(), last);
    for (const SaveResult& result : results) EXPECT_EQ(result.outcome, Outcome::not_finite);
    EXPECT_EQ(results[0].why, "b.m");
    EXPECT_TRUE(std::filesystem::is_empty(folder.str()));
  }
}

}  // namespace
}  // namespace plait
