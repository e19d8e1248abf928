#include "train/timetable.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(Timetable, saves_so_long_after_the_last_checkpoint) {
  Timetable times(600, {}, 0);
  times.begin(50);
  EXPECT_FALSE(times.save_due(649));
  EXPECT_TRUE(times.save_due(650));
  times.save_took(20, 670);
  EXPECT_FALSE(times.save_due(1269));
  EXPECT_TRUE(times.save_due(1270));
  EXPECT_FALSE(times.time_up(1e9)) << "no limit";
}

TEST(Timetable, without_an_interval_never_saves_by_time) { EXPECT_FALSE(Timetable({}, {}, 0).save_due(1e9)); }

// In every run that ends by it, the last step, its evaluation and its save end before the limit.
TEST(Timetable, ends_before_the_limit_whatever_takes_how_long) {
  for (const double step : {0.01, 1.0, 30.0})
    for (const double evaluation : {0.0, 5.0, 100.0})
      for (const double save : {0.1, 10.0, 100.0}) {
        Timetable times(600, 3600, 1000);
        double now = 1030;
        int steps = 0;
        for (; !times.time_up(now); ++steps) {
          now += step;
          times.step_took(step);
          if (steps % 10 == 0) {
            now += evaluation;
            times.evaluation_took(evaluation);
          }
          if (times.save_due(now)) {
            now += save;
            times.save_took(save, now);
          }
        }
        EXPECT_LE(now + save, 4600) << step << " " << evaluation << " " << save;
        EXPECT_GE(now + 4 * (step + evaluation + save), 4500) << "and uses the time";
      }
}

}  // namespace
}  // namespace plait
