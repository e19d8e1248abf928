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

TEST(Metrics, begin_anew_for_a_new_run) {
  const ScratchFolder folder;
  MetricsFile(folder / "m", -1).add(line(1, 1));
  MetricsFile(folder / "m", -1).add(line(1, 2));
  EXPECT_EQ(slurp(folder / "m"), "{\"step\": 1, \"loss\": 2}\n");
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
