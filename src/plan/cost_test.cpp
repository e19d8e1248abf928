// Seconds of steps against closed forms, and where the bytes of a message go.
#include "plan/cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/step.h"
#include "schedule/builder.h"

namespace plait {
namespace {

// Nodes of two ranks. Every number is a power of ten, so that a price shows what it is made of.
Machine simple() {
  Machine m{
      .name = "simple", .flops = 1e6, .memory_bytes = 1e3, .start = 0, .levels = {{"node", 2}, {"network", 1 << 20}}};
  m.levels[0].cost.fill({.alpha = 1, .beta = 0.01});
  m.levels[1].cost.fill({.alpha = 100, .beta = 0.1});
  return m;
}

Mesh eight() { return Mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 4}); }

StepCost last(Builder& b, const Machine& machine) {
  return step_costs(b.schedule(), check(b.schedule()), machine).back();
}

TEST(Level, is_the_innermost_that_holds_every_group_of_the_atom) {
  const Mesh mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 2});  // atoms of 2, 2 and 2, fastest first
  Machine machine = simple();
  EXPECT_EQ(level_of(machine, mesh, 0), 0);
  EXPECT_EQ(level_of(machine, mesh, 1), 1);
  machine.levels[0].ranks = 4;
  EXPECT_EQ(level_of(machine, mesh, 1), 0);
  EXPECT_EQ(level_of(machine, mesh, 2), 1);
  machine.levels[0].ranks = 3;  // pairs of neighbours straddle such nodes
  EXPECT_EQ(level_of(machine, mesh, 0), 1);
}

TEST(Cost, of_a_product_is_the_slower_of_flops_and_memory) {
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 10}, {"D", 20}}),
                w = b.leaf(LeafKind::parameter, "w", {{"D", 20}, {"F", 30}});
  b.add(Einsum{.out = {"T", "F"}}, {x, w});
  const StepCost cost = last(b, simple());
  EXPECT_DOUBLE_EQ(cost.flops, 2. * 10 * 20 * 30);
  EXPECT_DOUBLE_EQ(cost.memory_bytes, 4. * (10 * 20 + 20 * 30 + 10 * 30));
  EXPECT_DOUBLE_EQ(cost.seconds, cost.memory_bytes / 1e3);
  Machine slow = simple();
  slow.flops = 100;
  EXPECT_DOUBLE_EQ(last(b, slow).seconds, cost.flops / 100);
}

TEST(Cost, counts_this_ranks_share_and_renames_for_nothing) {
  Builder b{eight()};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 16, stack_of(tp)}, {"D", 4}});
  const ValueId y = b.add(Scale{.factor = 2}, {x});
  EXPECT_DOUBLE_EQ(last(b, simple()).memory_bytes, 4. * 2 * 8 * 4);
  b.add(Unflatten{.dim = "T", .major = "B", .minor = "S", .minor_size = 4}, {y});
  EXPECT_DOUBLE_EQ(last(b, simple()).seconds, 0);
}

TEST(Cost, of_an_embedding_reads_no_more_of_the_table_than_it_writes) {
  Builder b{Mesh()};
  const ValueId table = b.leaf(LeafKind::parameter, "table", {{"V", 1000}, {"D", 4}});
  Type ids{.dims = {{"T", 8}}, .holds = {}, .dtype = Dtype::integer, .grad = false};
  b.add(Embed{}, {table, b.leaf(LeafKind::data, "ids", ids)});
  EXPECT_DOUBLE_EQ(last(b, simple()).memory_bytes, 2. * 8 * 4 * 4);
}

TEST(Cost, of_ops_that_are_no_streams_counts_more_than_their_bytes) {
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::parameter, "x", {{"T", 8}, {"F", 4}});
  b.add(Scale{.factor = 2}, {x});
  const double stream = last(b, simple()).seconds;
  b.add(Activate{}, {x});
  EXPECT_GT(last(b, simple()).seconds, 1.5 * stream);
  Builder gate{Mesh()};
  Type mask{.dims = {{"T", 8}}, .holds = {}, .dtype = Dtype::integer, .grad = false};
  const ValueId logits = gate.leaf(LeafKind::parameter, "logits", {{"T", 8}, {"E", 4}});
  gate.add_all(Route{.top_k = 2}, {logits, gate.leaf(LeafKind::data, "mask", mask)}, "route");
  EXPECT_GT(last(gate, simple()).seconds, 8 * 2 * 3600 / 1e3) << "for each route of each token";
}

TEST(Cost, of_a_message_within_a_node_is_that_levels) {
  Builder b{eight()};
  const Atoms tp = b.mesh().axis(Axis::tp);
  b.gather(b.leaf(LeafKind::parameter, "x", {{"T", 100, stack_of(tp)}}), tp, "T");
  const StepCost cost = last(b, simple());
  EXPECT_EQ(cost.lane, 1);
  EXPECT_EQ(cost.ranks, 2);
  EXPECT_DOUBLE_EQ(cost.wire_bytes, 200);
  EXPECT_DOUBLE_EQ(cost.seconds, 1 + 0.01 * 200);
}

TEST(Cost, of_an_all_to_all_over_two_levels_gives_each_its_share) {
  Builder b{eight()};
  const Atoms all = b.mesh().atoms();  // 4 nodes of 2 ranks
  b.exchange(b.leaf(LeafKind::parameter, "x", {{"T", 64, stack_of(all)}, {"E", 8}}), all, "T", "E");
  const StepCost cost = last(b, simple());
  const double to_each = 64. / 8 * 8 / 8 * 4;
  EXPECT_EQ(cost.lane, 2);
  EXPECT_DOUBLE_EQ(cost.wire_bytes, 7 * to_each);
  EXPECT_DOUBLE_EQ(cost.level_bytes[0], 1 * to_each);
  EXPECT_DOUBLE_EQ(cost.level_bytes[1], 6 * to_each);
  // What is exchanged comes as columns for each source: unpacked, each byte read and written.
  EXPECT_DOUBLE_EQ(cost.copied_bytes, 8 * to_each);
  EXPECT_DOUBLE_EQ(cost.seconds, 1 + 0.01 * to_each + 100 + 0.1 * 6 * to_each + 2 * cost.copied_bytes / 1e3);
}

TEST(Cost, of_a_message_is_what_was_measured_for_groups_of_its_shape) {
  Builder b{eight()};
  const Atoms all = b.mesh().atoms();
  b.exchange(b.leaf(LeafKind::parameter, "x", {{"E", 8, stack_of(all)}, {"T", 64}}), all, "E", "T");
  Machine m = simple();
  GroupCost group{.digits = {{8, 1}}, .level = 1};
  group.cost[static_cast<size_t>(Collective::all_to_all)] = {.alpha = 7, .beta = 0.5};
  m.groups = {group};
  const StepCost cost = last(b, m);
  EXPECT_DOUBLE_EQ(cost.seconds, 7 + 0.5 * cost.wire_bytes + 2 * cost.copied_bytes / 1e3);
  m.groups[0].digits = {{4, 2}};
  EXPECT_GT(last(b, m).seconds, 100) << "groups of another shape say nothing";
}

TEST(Cost, of_a_product_follows_the_measured_curve) {
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 64}, {"D", 32}}),
                w = b.leaf(LeafKind::parameter, "w", {{"D", 32}, {"F", 128}});
  b.add(Einsum{.out = {"T", "F"}}, {x, w});
  Machine m = simple();
  m.memory_bytes = 1e18;
  const double flops = 2. * 64 * 32 * 128;
  m.products = {{64, 128, 32, 1e9}, {4096, 4096, 4096, 1e11}};  // rows, columns, inner
  EXPECT_DOUBLE_EQ(last(b, m).seconds, flops / 1e9) << "a measured size is taken as it is";
  m.products[0].rows = 32;
  const double between = last(b, m).seconds;
  EXPECT_LT(between, flops / 1e9);
  EXPECT_GT(between, flops / 1.1e9) << "near the near one";
  m.products = {{32, 128, 32, 1e9}, {128, 128, 32, 3e9}};
  EXPECT_DOUBLE_EQ(last(b, m).seconds, flops / 2e9) << "in the middle of two";
}

TEST(Cost, of_a_gather_over_two_levels_is_the_slowest_ones) {
  Builder b{eight()};
  const Atoms all = b.mesh().atoms();
  b.gather(b.leaf(LeafKind::parameter, "x", {{"T", 64, stack_of(all)}}), all, "T");
  const StepCost cost = last(b, simple());
  EXPECT_DOUBLE_EQ(cost.level_bytes[0], 0);
  EXPECT_DOUBLE_EQ(cost.seconds, 100 + 0.1 * 64 * 4 * 7. / 8);
}

TEST(Cost, of_a_training_step_puts_every_message_and_nothing_else_on_a_wire) {
  ModelSizes sizes{
      .sequences = 8, .positions = 8, .vocab = 32, .width = 16, .layers = 2, .heads = 4, .kv_heads = 4, .ffn = 32};
  sizes.experts = 4, sizes.top_k = 2, sizes.expert_ffn = 32, sizes.moe_every = 1;
  const Schedule s = build_step(eight(), sizes, {}).schedule;
  const std::vector<StepCost> costs = step_costs(s, check(s), simple());
  int moves = 0;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const Move* move = as<Move>(s.steps[i].op);
    const bool sends = move && collective(move->legs) != Collective::none;
    moves += sends;
    EXPECT_EQ(costs[i].lane > 0, sends) << s.title(s.steps[i]);
    EXPECT_EQ(costs[i].wire_bytes > 0, sends) << s.title(s.steps[i]);
    double shares = 0;
    for (double bytes : costs[i].level_bytes) shares += bytes;
    EXPECT_NEAR(shares, costs[i].wire_bytes, 1e-9);
  }
  EXPECT_GT(moves, 20);
}

}  // namespace
}  // namespace plait
