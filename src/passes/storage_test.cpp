// Where results lie and when values end.
#include "schedule/storage.h"

#include <gtest/gtest.h>

#include "passes/rewrite.h"
#include "schedule/builder.h"

namespace plait {
namespace {

using enum Sharing::How;
using Shares = std::vector<Sharing>;

const Mesh kPair({.ranks = 2, .tp = 2, .esp = 2, .ep = 1});

// Of the last step.
Shares shares(const Builder& b) { return sharing(b.mesh(), check(b.schedule()), b.schedule().steps.back()); }

ValueId leaf(Builder& b, std::vector<Dim> dims) { return b.leaf(LeafKind::data, "x", std::move(dims)); }

TEST(Storage, of_a_slice_is_a_view_where_it_lies_in_one_piece) {
  const auto sliced = [](std::vector<Dim> dims, const char* dim) {
    Builder b(kPair);
    b.slice(leaf(b, std::move(dims)), b.mesh().axis(Axis::tp), dim);
    return shares(b);
  };
  EXPECT_EQ(sliced({{"T", 4}, {"D", 6}}, "T"), (Shares{{view, 0, 0}}));
  EXPECT_EQ(sliced({{"T", 4}, {"D", 6}}, "D"), Shares{});
  EXPECT_EQ(sliced({{"T", 1}, {"D", 6}}, "D"), (Shares{{view, 0, 0}}));
  EXPECT_EQ(sliced({{"T", 2}, {"D", 6}, {"A", 3}}, "T"), (Shares{{view, 0, 0}}));
  EXPECT_EQ(sliced({{"T", 2}, {"D", 6}, {"A", 3}}, "D"), Shares{});
}

TEST(Storage, of_a_split_is_a_view_where_its_chunks_lie_in_one_piece) {
  const auto split = [](const char* dim) {
    Builder b{Mesh()};
    b.add_all(Split{dim, "s", 2}, {leaf(b, {{"T", 4}, {"D", 6}})});
    return shares(b);
  };
  EXPECT_EQ(split("T"), (Shares{{view, 0, 0}, {view, 1, 0}}));
  EXPECT_EQ(split("D"), Shares{});
}

TEST(Storage, of_a_sum_over_ranks_is_that_of_its_operand) {
  Builder b(kPair);
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = leaf(b, {{"T", 4, stack_of(tp)}});
  const ValueId sum = b.add(SumSquares{}, {x});
  b.leave(sum, tp);
  EXPECT_EQ(shares(b), (Shares{{over, 0, 0}}));
  b.enter(b.schedule().steps.back().out[0], tp);
  EXPECT_EQ(shares(b), (Shares{{view, 0, 0}}));
  b.join(x, tp, "T");
  EXPECT_EQ(shares(b), Shares{});
}

TEST(Storage, of_an_addition_is_that_of_either_operand) {
  Builder b{Mesh()};
  const ValueId x = leaf(b, {{"T", 4}});
  b.add(Add{}, {x, b.add(Scale{2}, {x})});
  EXPECT_EQ(shares(b), (Shares{{over, 0, 0}, {over, 0, 1}}));
}

TEST(Lifetimes, end_with_the_last_reader) {
  Builder b{Mesh()};
  const ValueId x = leaf(b, {{"T", 4}});
  const ValueId a = b.add(Scale{2}, {x}), unread = b.add(Scale{2}, {a}), c = b.add(Scale{2}, {a});
  const ValueId d = b.add(Scale{2}, {c});
  b.schedule().outputs = {d};
  const auto ends = [&](const std::vector<ValueId>& kept) {
    return lifetimes(b.schedule(), without_lanes(b.schedule()), kept).ends;
  };
  using Ends = std::vector<std::vector<ValueId>>;
  EXPECT_EQ(ends({}), (Ends{{}, {unread}, {a}, {c}})) << "leaves and outputs do not end";
  EXPECT_EQ(ends({a}), (Ends{{}, {unread}, {}, {c}}));
}

TEST(Lifetimes, of_what_a_repeated_section_reads_end_after_it) {
  Builder b{Mesh()};
  const ValueId x = leaf(b, {{"T", 4}});
  const ValueId before = b.add(Scale{2}, {x}), inside = b.add(Scale{2}, {before}), out = b.add(Scale{2}, {inside});
  b.schedule().outputs = {out};
  const Schedule s = repeat_section(b.take(), {1, 3, 2});
  const Lifetimes lives = lifetimes(s, without_lanes(s), {});
  EXPECT_EQ(lives.end_after_section, (std::vector<ValueId>{before}));
  EXPECT_EQ(lives.ends[2], (std::vector<ValueId>{inside}));
}

}  // namespace
}  // namespace plait
