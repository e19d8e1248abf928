// Messages apart, atom by atom and in buckets: the same numbers, and back again.
#include <gtest/gtest.h>

#include "passes/rewrite.h"
#include "passes/testing/edits.h"
#include "schedule/wire_bytes.h"

namespace plait::oracle {
namespace {

void everywhere(auto&& f) {
  for (const MeshSize& mesh : kLayouts)
    for (Family family : kFamilies)
      for (int chunks : {1, 2}) {
        if (!fits(family, mesh)) continue;
        SCOPED_TRACE(fmt::format("{} {} chunks {}", name(family), describe(mesh), chunks));
        f(Toy{.family = family, .mesh = mesh, .chunks = chunks});
      }
}

int count(const Schedule& s, std::string_view title) {
  return static_cast<int>(
      std::count_if(s.steps.begin(), s.steps.end(), [&](const Step& step) { return s.title(step) == title; }));
}

TEST(UnfuseMoves, and_merging_again_is_the_identity) {
  everywhere([](const Toy& toy) {
    const Model model = build(toy);
    const Schedule merged = merge_moves(model.schedule), apart = unfuse_moves(merged);
    EXPECT_EQ(count(apart, "exchange+gather") + count(apart, "exchange+scatter"), 0);
    EXPECT_EQ(fingerprint(merge_moves(apart), model.loss), fingerprint(merged, model.loss));
    if (toy.family == Family::sharded)
      EXPECT_EQ(fingerprint(unfuse_moves(merged), model.loss), fingerprint(model.schedule, model.loss));
  });
}

TEST(UnfuseMoves, leaves_fused_what_a_stack_holds_together) {
  // Slots over both digits of tp: the exchange would have to take the outer one first.
  const Model model = build({.family = Family::s2, .mesh = {8, 4, 2, 4}, .capacity = 8});
  const Schedule apart = unfuse_moves(model.schedule);
  EXPECT_EQ(count(apart, "exchange+gather"), 1);
  EXPECT_EQ(apart.steps, model.schedule.steps);
}

TEST(UnfuseMoves, exchanges_rows_instead_of_a_copy_for_each_shard_of_their_expert) {
  const Model model = build({.family = Family::s1, .mesh = {4, 2, 2, 2}, .capacity = 8});
  const Schedule apart = unfuse_moves(model.schedule);
  const auto exchanged = [](const Schedule& s) {
    const Types types = check(s);
    double bytes = 0;
    for (const Step& step : s.steps) {
      const WireCost cost = wire_cost(s, types, step, Item::all(8));
      if (cost.collective == Collective::all_to_all) bytes += cost.bytes;
    }
    return bytes;
  };
  const double rows = 4 * 8 * 4 * 8;  // bytes of [E, C, D] on one rank
  EXPECT_DOUBLE_EQ(exchanged(model.schedule), 2 * (2 * rows) * 3 / 4);
  EXPECT_DOUBLE_EQ(exchanged(apart), 2 * rows / 2);
}

TEST(OneAtomAtATime, leaves_no_exchange_over_several_atoms) {
  int parts = 0;
  everywhere([&](const Toy& toy) {
    const Model model = build(toy);
    const Schedule whole = unfuse_moves(model.schedule), apart = one_atom_at_a_time(whole);
    for (const Step& step : apart.steps)
      if (apart.title(step) == "exchange") EXPECT_EQ(std::get<Move>(step.op).legs.size(), 1u);
    parts += count(apart, "exchange") - count(whole, "exchange");
  });
  EXPECT_GT(parts, 20);
}

TEST(OneAtomAtATime, keeps_whole_what_a_stack_holds_together) {
  Builder b{Mesh({.ranks = 8, .tp = 4, .esp = 2, .ep = 4})};
  const Atoms ep = b.mesh().axis(Axis::ep);
  ASSERT_EQ(ep.size(), 2u);
  b.exchange(b.leaf(LeafKind::data, "rows", {{"E", 4}, {"C", 8, stack_of(ep)}}), ep, "C", "E");
  EXPECT_EQ(one_atom_at_a_time(b.schedule()).steps, b.schedule().steps);
}

TEST(Moves, apart_compute_the_same) {
  everywhere([](Toy toy) {
    toy.layers = 2;
    toy.residual = Residual::yes;
    const Data data{.skew = 1, .mask = {1, 1, 0, 1, 1}};
    for (int64_t capacity : {0, 8}) {
      toy.capacity = capacity;
      Model model = build(toy);
      const Numbers before = perform(model, data).numbers;
      model.schedule = one_atom_at_a_time(unfuse_moves(model.schedule));
      EXPECT_LT(max_difference(perform(model, data).numbers, before), 1e-11);
    }
  });
}

// Gradients of eight parameters leave in one message.
struct Synchronised {
  Schedule schedule;
  std::vector<ValueId> gradients;
};

Synchronised synchronised() {
  Builder b{Mesh({.ranks = 4, .tp = 1, .esp = 1, .ep = 4})};
  const Atoms dp = b.mesh().axis(Axis::dp);
  ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8, stack_of(dp)}, {"D", 3}});
  std::vector<ValueId> weights;
  for (int i = 0; i < 8; ++i)
    weights.push_back(
        b.leaf(LeafKind::parameter, fmt::format("w{}", i), {{i % 2 ? "H" : "D", 3}, {i % 2 ? "D" : "H", 3}}));
  const std::vector<ValueId> entered = b.move_all(weights, enter_legs(dp));
  for (int i = 0; i < 8; ++i) x = b.add(Einsum{{"T", i % 2 ? "D" : "H"}}, {x, entered[i]});
  const ValueId c = b.leaf(LeafKind::data, "c", {{"T", 8, stack_of(dp)}, {"D", 3}});
  const ValueId loss = b.leave(b.add(Einsum{}, {x, c}), dp);
  b.schedule().outputs = {loss};
  Differentiated d = differentiate(b.take(), loss);
  Synchronised all{.schedule = d.schedule};
  for (const auto& [leaf, gradient] : d.gradients) all.gradients.push_back(gradient);
  return all;
}

TEST(SplitMessages, sends_gradients_in_buckets_of_at_most_so_many_elements) {
  const Synchronised all = synchronised();
  ASSERT_EQ(all.schedule.steps.back().in.size(), 8u);
  for (const auto& [elements, messages] : {std::pair{0, 8}, {9, 8}, {18, 4}, {31, 3}, {125, 1}}) {
    const Schedule split = split_messages(all.schedule, elements);
    const Types types = check(split);
    int leaves = 0;
    for (const Step& step : split.steps) {
      if (split.title(step) != "leave" || types[step.out[0]].dims.empty()) continue;
      ++leaves;
      if (step.in.size() > 1) EXPECT_LE(static_cast<int>(step.in.size()) * 9, elements);
    }
    EXPECT_EQ(leaves, messages) << elements;
    const Execution one = interpret(all.schedule, feed(all.schedule, {})), many = interpret(split, feed(split, {}));
    for (ValueId g : all.gradients) EXPECT_EQ(one.values[g], many.values[g]);
  }
}

TEST(SplitMessages, leaves_what_stands_before_the_first_step_alone) {
  const Schedule s = synchronised().schedule;
  EXPECT_EQ(split_messages(s, 0, static_cast<int>(s.steps.size())).steps, s.steps);
  EXPECT_EQ(split_messages(s, 0, static_cast<int>(s.steps.size()) - 1).steps.size(), s.steps.size() + 7);
}

TEST(SplitMessages, fills_the_first_bucket_with_what_is_made_first) {
  const Schedule split = split_messages(synchronised().schedule, 18);
  const std::vector<int> made = makers(split);
  int last = -1;
  for (const Step& step : split.steps)
    if (split.title(step) == "leave" && step.in.size() == 2)
      for (ValueId v : step.in) {
        EXPECT_GT(made[v], last);
        last = made[v];
      }
}

}  // namespace
}  // namespace plait::oracle
