#include "base/units.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plait {
namespace {

TEST(Units, counts_keep_three_digits) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(1234), "1.23k");
  EXPECT_EQ(human_count(12345), "12.3k");
  EXPECT_EQ(human_count(999700), "1.00M");
  EXPECT_EQ(human_count(6.7e9), "6.70G");
  EXPECT_EQ(human_count(2.5), "2.50");
}

TEST(Units, bytes_are_powers_of_1024) {
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1000), "1000 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(3.0 * (1 << 30)), "3.00 GiB");
}

TEST(Units, sizes_are_read_in_either_system) {
  EXPECT_EQ(parse_bytes("16GB"), 16'000'000'000);
  EXPECT_EQ(parse_bytes("16 GB"), 16'000'000'000);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("2kB"), 2000);
  EXPECT_EQ(parse_bytes("24GiB"), int64_t{24} << 30);
  EXPECT_EQ(parse_bytes("3M"), 3'000'000);
  for (const char* bytes : {"4096", "4096B", "4096 B"}) EXPECT_EQ(parse_bytes(bytes), 4096);
  for (const char* wrong : {"", "GB", "16XB", "16iB", "-1GB", "0", "16GBs", "nan", "1e30", "16GB "})
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
}

TEST(Units, seconds_change_their_unit) {
  EXPECT_EQ(human_seconds(0), "0 s");
  EXPECT_EQ(human_seconds(3.2e-6), "3.20 us");
  EXPECT_EQ(human_seconds(0.85), "850 ms");
  EXPECT_EQ(human_seconds(12.34), "12.3 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
  EXPECT_EQ(human_seconds(NAN), "?");
}

TEST(Units, times_are_read_with_their_units) {
  EXPECT_EQ(parse_seconds("90s"), 90);
  EXPECT_EQ(parse_seconds("10m"), 600);
  EXPECT_EQ(parse_seconds("7h50m"), 28200);
  EXPECT_EQ(parse_seconds("1d0.5h"), 88200);
  for (const char* wrong : {"", "10", "m", "10x", "50m7h", "1h1h", "-1m", "0s", "nan s", "10 m", "infs"})
    EXPECT_EQ(parse_seconds(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace plait
