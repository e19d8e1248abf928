// Memory told from a list, on lists small enough to count by hand.
#include "plan/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/step.h"
#include "passes/differentiate.h"
#include "passes/rewrite.h"
#include "schedule/builder.h"

namespace plait {
namespace {

constexpr auto kInputs = MemoryClass::inputs, kKept = MemoryClass::kept, kTransient = MemoryClass::transient,
               kScratch = MemoryClass::scratch, kGradients = MemoryClass::gradients;

MemoryPlan plan(const Schedule& s, const MemoryQuestion& question = {}) { return plan_memory(s, check(s), question); }

std::vector<int64_t> curve(const MemoryPlan& plan, MemoryClass what) {
  std::vector<int64_t> bytes;
  for (const MemoryUse& use : plan.curve) bytes.push_back(use.of(what));
  return bytes;
}

// A data leaf of 10 elements, 40 bytes.
ValueId tokens(Builder& b, const std::string& name) {
  return b.leaf(LeafKind::data, name, std::vector<Dim>{{"T", 10}});
}

TEST(PlannedMemory, of_a_chain_is_one_value) {
  Builder b{Mesh()};
  ValueId x = tokens(b, "x");
  for (int i = 0; i < 3; ++i) x = b.add(Scale{2}, {x});
  const MemoryPlan p = plan(b.take());
  EXPECT_EQ(curve(p, kTransient), (std::vector<int64_t>{40, 40, 40})) << "each in the memory of the one before";
  EXPECT_EQ(curve(p, kInputs), (std::vector<int64_t>{40, 40, 40}));
  EXPECT_EQ(p.peak.total(), 80);
}

TEST(PlannedMemory, leaves_alone_what_is_read_again) {
  Builder b{Mesh()};
  const ValueId x = b.add(Scale{2}, {tokens(b, "x")}), y = b.add(Scale{2}, {x}), z = b.add(Add{}, {x, y});
  b.add(Scale{2}, {z});
  const MemoryPlan p = plan(b.take());
  EXPECT_EQ(curve(p, kTransient), (std::vector<int64_t>{40, 80, 80, 40}));
  EXPECT_EQ(p.step, 1);
  EXPECT_EQ(p.place, 1);
}

TEST(PlannedMemory, of_outputs_and_kept_values_stays) {
  Builder b{Mesh()};
  const ValueId x = b.add(Scale{2}, {tokens(b, "x")}), y = b.add(Scale{2}, {x});
  b.add(Scale{2}, {y});
  b.schedule().outputs = {y};
  const Schedule s = b.take();
  EXPECT_EQ(curve(plan(s), kTransient), (std::vector<int64_t>{40, 40, 80}));
  EXPECT_EQ(curve(plan(s, {.kept = {x}}), kTransient), (std::vector<int64_t>{40, 80, 120}));
}

TEST(PlannedMemory, of_views_is_shared_until_the_last_of_them_ends) {
  Builder b{Mesh()};
  const ValueId x = b.add(Scale{2}, {tokens(b, "x")});
  const ValueId pairs = b.add(Unflatten{"T", "B", "S", 5}, {x});
  b.add(Scale{2}, {x});
  b.add(Scale{2}, {pairs});
  const MemoryPlan p = plan(b.take());
  EXPECT_EQ(curve(p, kTransient), (std::vector<int64_t>{40, 40, 80, 40}));
}

// x -> silu -> silu, and back.
Schedule two_activations() {
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::parameter, "x", std::vector<Dim>{{"T", 10}});
  const ValueId y = b.add(Activate{}, {b.add(Activate{}, {x})});
  b.schedule().outputs = {};
  return differentiate(b.take(), {{y, "dy", LeafKind::data}}).schedule;
}

TEST(PlannedMemory, says_what_backward_reads) {
  const MemoryPlan p = plan(two_activations());
  // activate, activate, activate_grad, activate_grad
  EXPECT_EQ(curve(p, kKept), (std::vector<int64_t>{40, 40, 0, 0}))
      << "the gradient is made over the first one's result";
  EXPECT_EQ(curve(p, kTransient), (std::vector<int64_t>{0, 40, 40, 40}));
  EXPECT_EQ(curve(p, kGradients), (std::vector<int64_t>{0, 0, 0, 40}));
}

TEST(PlannedMemory, of_a_repeated_section_is_that_of_one_round_and_the_sums) {
  Builder b{Mesh()};
  const ValueId w = b.leaf(LeafKind::parameter, "w", std::vector<Dim>{{"T", 10}}), x = tokens(b, "x");
  const ValueId before = b.add(Scale{2}, {w}), product = b.add(Einsum{{}}, {before, x});
  b.add(Scale{2}, {product});
  Schedule s = b.take();
  s.outputs = {s.steps.back().out[0]};
  const MemoryPlan p = plan(repeat_section(s, {1, 3, 3}));
  ASSERT_EQ(p.curve.size(), 1u + 3 * 3);
  EXPECT_EQ(p.curve[0].of(kTransient), 40);
  EXPECT_EQ(p.curve[1].of(kTransient), 44);
  EXPECT_EQ(p.curve[7].of(kTransient), 44) << "until the section is over, and nothing else is left of a round";
  EXPECT_EQ(p.curve[0].of(kInputs), 44) << "x, and the sum of the output";
}

TEST(PlannedMemory, counts_the_buffers_of_a_message_whose_parts_lie_apart) {
  const Mesh mesh({.ranks = 2, .tp = 2, .esp = 2, .ep = 1});
  Builder b(mesh);
  const Atoms tp = mesh.axis(Axis::tp);
  const ValueId rows = b.leaf(LeafKind::data, "rows", std::vector<Dim>{{"T", 4, stack_of(tp)}, {"D", 6}});
  const ValueId columns = b.leaf(LeafKind::data, "columns", std::vector<Dim>{{"T", 4}, {"D", 6, stack_of(tp)}});
  b.join(rows, tp, "T");
  b.join(columns, tp, "D");
  b.exchange(rows, tp, "T", "D");
  const MemoryPlan p = plan(b.take());
  EXPECT_EQ(curve(p, kScratch), (std::vector<int64_t>{0, 96, 48})) << "the last one packs what it sends";
}

// ---- a whole training step

ModelSizes sizes() {
  return {.sequences = 4,
          .positions = 8,
          .vocab = 24,
          .width = 16,
          .layers = 2,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 20,
          .moe_every = 2,
          .experts = 4,
          .top_k = 2,
          .expert_ffn = 12};
}

constexpr int64_t kExperts = 4 * (2 * 12 * 16 + 16 * 12);  // gate|up, down

TEST(PlannedMemory, of_states_is_exact) {
  const Schedule s = build_step(Mesh(), sizes(), {}).schedule;
  int64_t elements = 0;
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::parameter) elements += local_elements(s.mesh, leaf.type);
  const MemoryUse use = plan(s).peak;
  EXPECT_EQ(use.of(MemoryClass::parameters), 4 * elements);
  EXPECT_EQ(use.of(MemoryClass::optimizer), 8 * elements);
  EXPECT_EQ(use.at({MemoryClass::parameters, true}), 4 * kExperts);
  EXPECT_EQ(use.at({MemoryClass::optimizer, true}), 8 * kExperts);
  EXPECT_EQ(use.states(), 12 * elements);
}

TEST(PlannedMemory, of_experts_is_cut_over_the_ranks_that_share_them) {
  const Mesh mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
  const MemoryUse use = plan(build_step(mesh, sizes(), {}).schedule).peak;
  EXPECT_EQ(use.at({MemoryClass::optimizer, true}), 8 * kExperts / 4);
}

TEST(PlannedMemory, follows_the_rows_of_each_rank) {
  const Mesh mesh({.ranks = 2, .tp = 1, .esp = 1, .ep = 2});
  const Schedule s = build_step(mesh, sizes(), {}).schedule;
  // 4 experts, 2 ranks that have tokens: 16 tokens with 2 routes each.
  const RowTables even = {{"r1", {8, 8, 8, 8, 8, 8, 8, 8}}}, skewed = {{"r1", {16, 16, 16, 16, 0, 0, 0, 0}}};
  const auto rows = [&](int rank, const RowTables& tables) {
    const MemoryPlan p = plan(s, {.rank = rank, .tables = {tables}});
    int64_t most = 0;
    for (const MemoryUse& use : p.curve) most = std::max(most, use.at({kKept, true}));
    return most;
  };
  EXPECT_EQ(rows(0, even), rows(1, even));
  EXPECT_EQ(plan(s, {.tables = {even}}).peak, plan(s).peak) << "the expected number is the even one";
  EXPECT_GT(rows(0, skewed), rows(0, even));
  EXPECT_LT(rows(1, skewed), rows(1, even));
}

// ---- recomputation

// Four layers, two of them with experts; padded, so that every buffer of rows has E C D elements on every rank.
ModelSizes padded(const FamilySpec* family) {
  ModelSizes s = sizes();
  s.family = family;
  s.layers = 4;
  s.capacity = 8;
  s.group = 16;
  s.drop = Drop::probs;
  return s;
}
constexpr int64_t kBuffer = 4 * 8 * 16 * 4;  // bytes

MemoryPlan with_recomputation(const FamilySpec* family, Recompute what, KeepMoves keep) {
  ModelSizes s = padded(family);
  s.recompute = what;
  s.keep_moves = keep;
  return plan(build_step(Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}), s, {}).schedule);
}

// Rows kept for backward when most are.
int64_t kept_rows(const MemoryPlan& p) {
  int64_t most = 0;
  for (const MemoryUse& use : p.curve) most = std::max(most, use.at({kKept, true}));
  return most;
}

TEST(PlannedMemory, of_communication_aware_recomputation_is_two_buffers_a_layer) {
  const auto extra = [&](const FamilySpec* family, KeepMoves keep) {
    return (kept_rows(with_recomputation(family, Recompute::full, keep)) -
            kept_rows(with_recomputation(family, Recompute::full, KeepMoves::none))) /
           2;
  };
  EXPECT_EQ(extra(&families::ted, KeepMoves::all), 2 * kBuffer);
  EXPECT_EQ(extra(&families::dtd, KeepMoves::all), 2 * kBuffer) << "the joined side";
  EXPECT_EQ(extra(&families::dtd, KeepMoves::reduce_and_exchange), 2 * kBuffer / 2) << "the small side, tp = 2";
}

TEST(PlannedMemory, of_recomputation_keeps_less_for_backward) {
  const auto kept = [&](Recompute what, KeepMoves keep) {
    int64_t most = 0;
    for (const MemoryUse& use : with_recomputation(&families::dtd, what, keep).curve)
      most = std::max(most, use.of(kKept));
    return most;
  };
  EXPECT_LT(kept(Recompute::full, KeepMoves::none), kept(Recompute::full, KeepMoves::reduce_and_exchange));
  EXPECT_LT(kept(Recompute::full, KeepMoves::reduce_and_exchange), kept(Recompute::full, KeepMoves::all));
  EXPECT_LT(kept(Recompute::full, KeepMoves::all), kept(Recompute::selective, KeepMoves::all));
  EXPECT_LT(kept(Recompute::selective, KeepMoves::all), kept(Recompute::none, KeepMoves::all));
}

}  // namespace
}  // namespace plait
