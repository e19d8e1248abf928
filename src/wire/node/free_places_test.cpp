// Places that are taken, given back and joined, beside a plain list of what is taken.
#include "wire/node/free_places.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/random.h"

namespace plait::wire {
namespace {

TEST(FreePlaces, takes_the_first_part_that_is_large_enough) {
  FreePlaces places(1000);
  EXPECT_EQ(places.take(400), 0);
  EXPECT_EQ(places.take(100), 400);
  EXPECT_EQ(places.take(300), 500);
  EXPECT_EQ(places.take(201), std::nullopt);
  places.give_back(400, 100);
  EXPECT_EQ(places.take(101), 800) << "the gap of 100 is too small";
  EXPECT_EQ(places.take(100), 400);
}

TEST(FreePlaces, joins_what_is_given_back_to_both_neighbours) {
  FreePlaces places(300);
  for (const int64_t start : {0, 100, 200}) EXPECT_EQ(places.take(100), start);
  EXPECT_EQ(places.parts(), 0);
  places.give_back(0, 100);
  places.give_back(200, 100);
  EXPECT_EQ(places.parts(), 2);
  places.give_back(100, 100);
  EXPECT_EQ(places.parts(), 1);
  EXPECT_EQ(places.take(300), 0);
}

TEST(FreePlaces, refuses_what_is_free_already) {
  FreePlaces places(300);
  EXPECT_EQ(places.take(200), 0);
  places.give_back(100, 100);
  EXPECT_THROW(places.give_back(100, 100), ContractError);
  EXPECT_THROW(places.give_back(50, 100), ContractError);
}

TEST(FreePlaces, of_nothing_give_nothing) { EXPECT_EQ(FreePlaces(0).take(1), std::nullopt); }

TEST(FreePlaces, never_overlap_and_are_all_there_at_the_end) {
  constexpr int64_t kAll = 5000;
  FreePlaces places(kAll);
  struct Taken {
    int64_t start, bytes;
  };
  std::vector<Taken> taken;
  int64_t refused = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const int64_t bytes = 1 + static_cast<int64_t>(hash64(1, i) % 700);
    if (hash64(2, i) % 2 == 0 && !taken.empty()) {
      const size_t t = hash64(3, i) % taken.size();
      places.give_back(taken[t].start, taken[t].bytes);
      taken.erase(taken.begin() + static_cast<int64_t>(t));
    } else if (const auto start = places.take(bytes)) {
      ASSERT_LE(*start + bytes, kAll);
      for (const Taken& t : taken) ASSERT_TRUE(*start + bytes <= t.start || t.start + t.bytes <= *start);
      taken.push_back({*start, bytes});
    } else {
      ++refused;
    }
    int64_t used = 0;
    for (const Taken& t : taken) used += t.bytes;
    ASSERT_EQ(places.bytes(), kAll - used);
  }
  EXPECT_GT(refused, 0);
  for (const Taken& t : taken) places.give_back(t.start, t.bytes);
  EXPECT_EQ(places.parts(), 1);
}

}  // namespace
}  // namespace plait::wire
