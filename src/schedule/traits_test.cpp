// Facts of an op are stated, all of them.
#include "schedule/traits.h"

#include <gtest/gtest.h>

#include "schedule/builder.h"
#include "schedule/lanes.h"
#include "schedule/text.h"
#include "schedule/typing.h"

namespace plait {
namespace {

template <class T>
concept WithAllFacts = requires {
  T{.memory = traits::kFresh,
    .elements = traits::alike,
    .cost = traits::kStream,
    .kept = Kept::again,
    .hoist = traits::kStays,
    .scratch = traits::no_scratch};
};
template <class T>
concept WithoutMemory = requires {
  T{.elements = traits::alike,
    .cost = traits::kStream,
    .kept = Kept::again,
    .hoist = traits::kStays,
    .scratch = traits::no_scratch};
};
template <class T>
concept WithoutKept = requires {
  T{.memory = traits::kFresh,
    .elements = traits::alike,
    .cost = traits::kStream,
    .hoist = traits::kStays,
    .scratch = traits::no_scratch};
};
template <class T>
concept WithoutPace = requires {
  T{.streams = 1, .bytes_per_token = 0, .reads = MemoryRead::operands, .flops = traits::no_flops};
};

TEST(Traits, do_not_compile_without_one_of_their_facts) {
  static_assert(WithAllFacts<Traits>);
  static_assert(!WithoutMemory<Traits>);
  static_assert(!WithoutKept<Traits>);
  static_assert(!WithoutPace<Cost>);
}

std::vector<Sharing> aliases_of_last(const Builder& b) { return aliases(b.schedule().steps.back()); }

TEST(Traits, tell_once_what_lies_in_the_memory_of_what) {
  using enum Sharing::How;
  Builder b{Mesh({.ranks = 2, .tp = 2, .esp = 2, .ep = 1})};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const auto leaf = [&](LeafKind kind, const char* name) { return b.leaf(kind, name, {{"T", 4}}); };
  const ValueId p = leaf(LeafKind::parameter, "p"), g = leaf(LeafKind::data, "g"), m = leaf(LeafKind::state, "m"),
                v = leaf(LeafKind::state, "v"), one = b.leaf(LeafKind::scalar, "one", std::vector<Dim>{});
  b.add(AdamW{}, {p, g, m, v, one, one, one});
  EXPECT_EQ(aliases_of_last(b), (std::vector<Sharing>{{in_place, 0, 0}, {in_place, 1, 2}, {in_place, 2, 3}}));
  EXPECT_EQ(plait::in_place(b.schedule().steps.back()), aliases_of_last(b));
  const ValueId part = b.slice(g, tp, "T");
  EXPECT_EQ(aliases_of_last(b), (std::vector<Sharing>{{view, 0, 0}}));
  EXPECT_TRUE(plait::in_place(b.schedule().steps.back()).empty());
  b.join(part, tp, "T");
  EXPECT_TRUE(aliases_of_last(b).empty()) << "what comes from others has memory of its own";
  b.add(Scale{2}, {g});
  EXPECT_TRUE(aliases_of_last(b).empty()) << "it lies there only where the operand ends";
  b.add(Dup{"T", {}, 2}, {g});
  EXPECT_TRUE(aliases_of_last(b).empty());
  b.add(Dup{"T", {}, 1}, {g});
  EXPECT_EQ(aliases_of_last(b), (std::vector<Sharing>{{view, 0, 0}}));
}

// A scalar that is fed and the norm are float64 in every run; a list of one precision does not print the difference.
TEST(Traits, make_the_norm_wide) {
  Builder b{Mesh()};
  const ValueId g = b.leaf(LeafKind::data, "g", {{"T", 4}});
  const ValueId squares = b.add(SumSquares{}, {g});
  EXPECT_EQ(b.type(squares).dtype, Dtype::wide);
  EXPECT_EQ(b.type(b.add(Add{}, {squares, squares})).dtype, Dtype::wide);
  for (ValueId v : b.add_all(ClipFactor{1}, {squares})) EXPECT_EQ(b.type(v).dtype, Dtype::wide);
  const ValueId lr = b.leaf(LeafKind::scalar, "lr", std::vector<Dim>{}),
                real = b.leaf(LeafKind::data, "real", std::vector<Dim>{}),
                p = b.leaf(LeafKind::parameter, "p", {{"T", 4}});
  EXPECT_NO_THROW(Builder(b).add(Sgd{}, {p, g, lr, lr}));
  EXPECT_THROW(Builder(b).add(Sgd{}, {p, g, lr, real}), TypeFault);
  EXPECT_THROW(Builder(b).add(Add{}, {squares, real}), TypeFault);
  EXPECT_THROW(Builder(b).add(ClipFactor{1}, {real}), TypeFault);
}

std::string printed(Precision precision) {
  Builder b(Mesh(), precision);
  const ValueId g = b.leaf(LeafKind::data, "g", {{"T", 4}}), p = b.leaf(LeafKind::parameter, "p", {{"T", 4}});
  const ValueId factor = b.add_all(ClipFactor{1}, {b.add(SumSquares{}, {g})})[1];
  b.add(Sgd{}, {p, g, factor, b.leaf(LeafKind::scalar, "lr", std::vector<Dim>{})});
  return print(b.schedule());
}

TEST(Traits, print_wide_where_there_are_other_real_types) {
  for (const auto& [precision, word] : {std::pair{Precision::one, "side"}, std::pair{Precision::mixed, "wide"}}) {
    const std::string text = printed(precision), pair = fmt::format(" : {0} [] ; {0} []\n", word);
    EXPECT_NE(text.find(fmt::format("leaf scalar %lr : {} []\n", word)), std::string::npos) << text;
    EXPECT_NE(text.find("clip_factor(%sum_squares) clip=1" + pair), std::string::npos) << text;
    EXPECT_EQ(print(parse_schedule(text)), text);
    for (const Leaf& leaf : parse_schedule(text).leaves)
      EXPECT_EQ(leaf.type.dtype == Dtype::wide, leaf.kind == LeafKind::scalar);
  }
}

}  // namespace
}  // namespace plait
