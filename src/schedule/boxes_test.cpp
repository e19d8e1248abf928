#include "schedule/boxes.h"

#include <gtest/gtest.h>

#include "schedule/wire_bytes.h"

namespace plait {
namespace {

// E C M far beyond 2^31, without a byte of memory: places are counted in 64 bits.
TEST(Boxes, count_places_beyond_two_to_the_31) {
  const int64_t experts = 64, slots = int64_t{1} << 20, width = 4096;
  const Box local = {{0, experts}, {0, slots}, {0, width}};
  EXPECT_EQ(volume(local), int64_t{1} << 38);
  const Box part = {{63, 1}, {slots - 2, 2}, {0, width}};
  EXPECT_EQ(runs_of(part, local), (std::vector<Rows>{{(int64_t{1} << 38) - 2 * width, 2 * width}}));
}

TEST(Boxes, count_rows_beyond_two_to_the_31) {
  const std::vector<int64_t> counts = {int64_t{1} << 31, 5, 0, int64_t{1} << 33};
  const CellRows rows({{2, 4}}, counts.data());
  EXPECT_EQ(rows.total(), (int64_t{1} << 31) + 5 + (int64_t{1} << 33));
  EXPECT_EQ(rows.of({{5, 1}}), (std::vector<Rows>{{(int64_t{1} << 31) + 5, int64_t{1} << 33}}));
}

TEST(WireBytes, of_a_message_beyond_two_to_the_31_are_exact) {
  const Mesh mesh({.ranks = 2, .ep = 2});
  const Atom atom = mesh.axis(Axis::ep)[0];
  Type rows{.dims = {{"E", 64, {{.atom = atom}}}, {"C", int64_t{1} << 20}, {"D", 4096}}, .holds = {Hold::S}};
  Type back = rows;
  std::swap(back.dims[0].stack, back.dims[1].stack);
  Schedule s;
  s.mesh = mesh;
  const Step step{Move{{{atom, {Hold::S, "E"}, {Hold::S, "C"}}}}, {0}, {1}};
  EXPECT_EQ(wire_cost(s, {rows, back}, step, Item::all(4)).bytes, 0x1p38 * 4 / 2 / 2);
}

}  // namespace
}  // namespace plait
