// Slices that move up and joins that move down: from one family to another, and past no gate that they would change.
#include <gtest/gtest.h>

#include "passes/lower.h"
#include "passes/rewrite.h"
#include "passes/testing/edits.h"

namespace plait::oracle {
namespace {

std::string form(const Schedule& schedule, ValueId value) { return fingerprint(schedule, value); }

// Gate groups that no family cuts.
Toy toy_at(Family family, const MeshSize& mesh, int chunks) {
  return {.family = family, .mesh = mesh, .chunks = chunks, .group = 2};
}

void at_every_layout(auto&& f) {
  for (const MeshSize& mesh : kLayouts)
    for (int chunks : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} chunks {}", describe(mesh), chunks));
      f(mesh, chunks);
    }
}

TEST(Rewrites, of_chunks_of_rows_lead_from_ted_to_dtd_to_s2_to_s1_to_sharded) {
  at_every_layout([](const MeshSize& mesh, int chunks) {
    const auto built = [&](Family family) { return build(toy_at(family, mesh, chunks)); };
    const Model s2 = built(Family::s2), s1 = built(Family::s1), sharded = built(Family::sharded);
    EXPECT_EQ(form(hoist(s2.schedule, Axis::tp), s2.loss), form(s1.schedule, s1.loss));
    const Schedule a = merge_moves(s1.schedule), b = merge_moves(sharded.schedule);
    for (int i = 0; i < chunks; ++i)
      EXPECT_EQ(form(a, a.steps[find_step(a, "decode", i)].out[0]), form(b, b.steps[find_step(b, "decode", i)].out[0]));
    if (!fits(Family::ted, mesh)) return;
    const Model ted = built(Family::ted), dtd = built(Family::dtd);
    const Schedule derived = drop_duplicates(ted.schedule, Axis::tp);
    EXPECT_EQ(form(derived, ted.loss), form(dtd.schedule, dtd.loss));
    EXPECT_EQ(form(merge_moves(derived), ted.loss), form(s2.schedule, s2.loss));
  });
}

TEST(Hoist, passes_a_gate_that_drops_within_groups_that_it_does_not_cut) {
  at_every_layout([](const MeshSize& mesh, int chunks) {
    const auto built = [&](Family family) {
      Toy toy = toy_at(family, mesh, chunks);
      toy.capacity = 1;
      toy.drop = Drop::probs;
      toy.buffer = Buffer::ragged;
      return build(toy);
    };
    const Model s2 = built(Family::s2), s1 = built(Family::s1);
    EXPECT_EQ(form(hoist(s2.schedule, Axis::tp), s2.loss), form(s1.schedule, s1.loss));
  });
}

// What the joins over tp carry: ragged rows or tokens.
struct Joins {
  int rows = 0, tokens = 0;
};
Joins joins(const Schedule& s) {
  const Types types = check(s);
  Joins n;
  for (const Step& step : s.steps)
    if (s.title(step) == "join") ++(types[step.in[0]].jagged_index() >= 0 ? n.rows : n.tokens);
  return n;
}

TEST(Hoist, keeps_a_gate_whole_whose_groups_it_would_cut_and_joins_tokens_instead_of_rows) {
  at_every_layout([](const MeshSize& mesh, int chunks) {
    if (mesh.tp == 1) return;
    Toy toy{.family = Family::s2, .mesh = mesh, .layers = 2, .chunks = chunks, .residual = Residual::yes};
    toy.capacity = 2;  // of a group of all 8 tokens
    toy.drop = Drop::probs;
    toy.buffer = Buffer::ragged;
    const Data data{.skew = 2, .mask = {1, 1, 1, 1, 0, 1, 1, 1, 1}};
    Model model = build(toy);
    EXPECT_EQ(joins(model.schedule).rows, 2 * chunks);
    model.schedule = hoist(model.schedule, Axis::tp);
    EXPECT_EQ(joins(model.schedule).rows, 0);
    EXPECT_EQ(joins(model.schedule).tokens, 2);
    EXPECT_LT(max_difference(perform(model, data).numbers, perform(build(on_one_rank(toy)), data).numbers), 1e-10);
    toy.group = 8 / mesh.tp;  // smaller groups drop others
    EXPECT_GT(max_difference(perform(model, data).numbers, perform(build(on_one_rank(toy)), data).numbers), 1e-3);
  });
}

TEST(Hoist, changes_nothing_that_is_computed) {
  at_every_layout([](const MeshSize& mesh, int chunks) {
    for (Family family : kFamilies) {
      if (!fits(family, mesh)) continue;
      const Data data{.skew = 1, .mask = {1, 1, 0, 1, 1}};
      Model model =
          build({.family = family, .mesh = mesh, .layers = 2, .chunks = chunks, .residual = Residual::yes, .group = 2});
      const Numbers before = perform(model, data).numbers;
      model.schedule = hoist(model.schedule, Axis::tp);
      EXPECT_LT(max_difference(perform(model, data).numbers, before), 1e-11) << name(family);
    }
  });
}

TEST(Hoist, keeps_a_loss_that_is_no_output_and_drops_the_gate_that_it_replaced) {
  const Model s1 = build(toy_at(Family::s1, {4, 2, 2, 2}, 1));
  Model s2 = build(toy_at(Family::s2, {4, 2, 2, 2}, 1));
  s2.schedule.outputs.clear();
  const Schedule hoisted = hoist(s2.schedule, Axis::tp);
  EXPECT_EQ(form(hoisted, s2.loss), form(s1.schedule, s1.loss));
  EXPECT_EQ(hoisted.steps.size(), s1.schedule.steps.size());
}

TEST(Hoist, leaves_padded_slots_and_other_families_alone) {
  for (Family family : kFamilies)
    for (int64_t capacity : {0, 8}) {
      const bool cuts_rows = family == Family::s2 || family == Family::dtd;
      if (cuts_rows && !capacity) continue;
      const Model model = build({.family = family, .mesh = {8, 2, 2, 2}, .layers = 2, .capacity = capacity});
      EXPECT_EQ(hoist(model.schedule, Axis::tp).steps, model.schedule.steps) << name(family);
    }
  const Model alone = build({.family = Family::s2, .mesh = {4, 1, 2, 2}});
  EXPECT_EQ(hoist(alone.schedule, Axis::tp).steps, alone.schedule.steps);
}

}  // namespace
}  // namespace plait::oracle
