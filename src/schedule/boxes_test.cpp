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
  EXPECT_EQ(runs_of(part, local), (std::vector<Pieces>{{(int64_t{1} << 38) - 2 * width, 2 * width}}));
}

// Of [2, 3, 4, 5] all of the first two dims and part of the third: six pieces at equal distances.
TEST(Boxes, see_pieces_at_equal_distances_as_one_run) {
  const Box local = {{4, 2}, {0, 3}, {8, 4}, {0, 5}};
  EXPECT_EQ(runs_of({{4, 2}, {0, 3}, {9, 2}, {0, 5}}, local), (std::vector<Pieces>{{5, 10, 6, 20}}));
  EXPECT_EQ(runs_of({{5, 1}, {0, 3}, {9, 2}, {0, 5}}, local), (std::vector<Pieces>{{65, 10, 3, 20}}));
  EXPECT_EQ(runs_of({{4, 2}, {1, 1}, {9, 2}, {0, 5}}, local), (std::vector<Pieces>{{25, 10, 2, 60}}));
  EXPECT_EQ(runs_of({{4, 2}, {1, 2}, {9, 2}, {0, 5}}, local), (std::vector<Pieces>{{25, 10, 2, 20}, {85, 10, 2, 20}}));
}

// Every part of a small box: its runs are its elements, row-major.
TEST(Boxes, tell_the_elements_of_a_part_in_order) {
  const Box local = {{1, 2}, {0, 3}, {2, 2}, {0, 3}};
  int parts = 0;
  const auto every = [&](auto&& self, Box part) -> void {
    const size_t d = part.size();
    if (d < local.size()) {
      for (int64_t first = 0; first < local[d].size; ++first)
        for (int64_t size = 1; first + size <= local[d].size; ++size) {
          part.resize(d);
          part.push_back({local[d].first + first, size});
          self(self, part);
        }
      return;
    }
    std::vector<int64_t> want, got;
    const auto walk = [&](auto&& deeper, size_t dim, int64_t place) -> void {
      if (dim == local.size()) return want.push_back(place);
      for (int64_t i = 0; i < part[dim].size; ++i)
        deeper(deeper, dim + 1, place * local[dim].size + part[dim].first - local[dim].first + i);
    };
    walk(walk, 0, 0);
    for (const Pieces& run : runs_of(part, local))
      for (int64_t i = 0; i < run.times; ++i)
        for (int64_t e = 0; e < run.count; ++e) got.push_back(run.first + i * run.stride + e);
    EXPECT_EQ(got, want);
    ++parts;
  };
  every(every, {});
  EXPECT_EQ(parts, 3 * 6 * 3 * 6);
}

TEST(Boxes, count_rows_beyond_two_to_the_31) {
  const std::vector<int64_t> counts = {int64_t{1} << 31, 5, 0, int64_t{1} << 33};
  const CellRows rows({{2, 4}}, counts.data());
  EXPECT_EQ(rows.total(), (int64_t{1} << 31) + 5 + (int64_t{1} << 33));
  EXPECT_EQ(rows.of({{5, 1}}), (std::vector<Pieces>{{(int64_t{1} << 31) + 5, int64_t{1} << 33}}));
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
