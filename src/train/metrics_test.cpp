#include "train/metrics.h"

#include "base/errors.h"
#include "base/testing/scratch_folder.h"

namespace plait {
namespace {

JsonLine line(int64_t step, double loss) { return JsonLine().add("step", step).add("loss", loss); }

TEST(Metrics, are_one_object_a_line_readable_at_once) {
  const ScratchFolder folder;
  MetricsFile metrics(folder / "metrics.jsonl", -1);
  metrics.add(line(1, 2.5));
  metrics.add(line(2, 2.25).add("val_loss", 3.0));
  EXPECT_EQ(slurp(folder / "metrics.jsonl"),
            "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 2.25, \"val_loss\": 3}\n");
  const auto losses = read_metric(folder / "metrics.jsonl", "loss");
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[1].step, 2);
  EXPECT_EQ(losses[1].value, 2.25);
  EXPECT_EQ(read_metric(folder / "metrics.jsonl", "val_loss").size(), 1u);
  EXPECT_EQ(read_metric(folder / "none.jsonl", "loss").size(), 0u);
}

TEST(Metrics, go_on_after_the_step_that_was_resumed) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile metrics(path, -1);
    for (int64_t step = 1; step <= 5; ++step) metrics.add(line(step, 1.0 / step));
  }
  spill(path, slurp(path) + "{\"step\": 6, \"lo");  // the process ended in the middle of a line
  MetricsFile(path, 3).add(line(4, 9));
  EXPECT_EQ(slurp(path),
            "{\"step\": 1, \"loss\": 1}\n{\"step\": 2, \"loss\": 0.5}\n{\"step\": 3, \"loss\": 0.3333333333333333}\n"
            "{\"step\": 4, \"loss\": 9}\n");
}

TEST(Metrics, of_a_run_without_a_checkpoint_are_kept_beside_those_of_a_new_one) {
  const ScratchFolder folder;
  std::vector<std::string> told;
  const auto tell = [&](const std::string& line) { told.push_back(line); };
  for (int i = 1; i <= 3; ++i) MetricsFile(folder / "m.jsonl", 0, tell).add(line(1, i));
  EXPECT_EQ(slurp(folder / "m.jsonl"), "{\"step\": 1, \"loss\": 3}\n");
  EXPECT_EQ(slurp(folder / "m.1.jsonl"), "{\"step\": 1, \"loss\": 1}\n");
  EXPECT_EQ(slurp(folder / "m.2.jsonl"), "{\"step\": 1, \"loss\": 2}\n");
  EXPECT_EQ(told, (std::vector<std::string>{
                      folder / "m.jsonl is of a run that left no checkpoint: kept as " + (folder / "m.1.jsonl"),
                      folder / "m.jsonl is of a run that left no checkpoint: kept as " + (folder / "m.2.jsonl")}));
}

// Lines longer than what is read at once, and many short ones; cut after any of them.
TEST(Metrics, are_cut_off_after_any_step) {
  const ScratchFolder folder;
  const std::string path = folder / "m.jsonl";
  std::string all;
  std::vector<std::string> until = {""};
  for (int64_t step = 1; step <= 40; ++step) {
    std::vector<double> load(step % 10 == 0 ? 300'000 : step % 3 == 0 ? 20'000 : 1, 0.25);
    all += line(step, 1).add("share", std::span<const double>(load)).str() + "\n";
    until.push_back(all);
  }
  for (const int64_t step : {1, 2, 9, 10, 11, 20, 29, 30, 39, 40}) {
    for (const char* half : {"", "{\"step\": 41", "{\"step\": 41, \"loss\": 2}"}) {
      spill(path, all + half);
      std::string told;
      MetricsFile(path, step, [&](const std::string& line) { told = line; });
      EXPECT_TRUE(slurp(path) == until[static_cast<size_t>(step)]) << step << half;
      const int64_t gone = 40 - step + (*half ? 1 : 0);
      EXPECT_NE(
          told.find(gone ? fmt::format(": {} line{} after step {} cut off", gone, gone == 1 ? "" : "s", step) : ""),
          std::string::npos)
          << told;
    }
  }
}

TEST(Metrics, leave_out_values_that_are_no_number) {
  const ScratchFolder folder;
  MetricsFile(folder / "m", -1).add(line(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(read_metric(folder / "m", "loss").empty());
}

TEST(Metrics, refuse_a_folder_that_is_not_there) {
  EXPECT_THROW(MetricsFile("no/such/folder/metrics.jsonl", -1), InputError);
}

}  // namespace
}  // namespace plait
