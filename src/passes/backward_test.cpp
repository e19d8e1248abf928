// The backward list is refused when any of its moves is missing or wrong.
#include <gtest/gtest.h>

#include "passes/testing/edits.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

// Forward, backward and an update that reads every gradient.
struct TrainingList {
  Schedule schedule;
  int num_forward = 0;
};

TrainingList training_step(const Toy& toy) {
  const Model model = build(toy);
  Differentiated d = differentiate(model.schedule, model.loss);
  Builder b(std::move(d.schedule));
  const ValueId factor = b.leaf(LeafKind::scalar, "factor", std::vector<Dim>{}),
                lr = b.leaf(LeafKind::scalar, "lr", std::vector<Dim>{});
  for (const auto& [leaf, gradient] : d.gradients) b.add(Sgd{}, {leaf, gradient, factor, lr});
  return {b.take(), d.num_forward};
}

bool refused(const Schedule& s) {
  try {
    check(s);
    return false;
  } catch (const TypeFault&) {
    return true;
  }
}

Schedule without_step(Schedule s, int index) {
  const Step step = s.steps[index];
  s.steps.erase(s.steps.begin() + index);
  for (size_t i = 0; i < step.out.size(); ++i) read_instead(s, step.out[i], step.in[i]);
  return s;
}

void expect_every_backward_move_missed(const Toy& toy) {
  const TrainingList step = training_step(toy);
  int moves = 0;
  for (int i = step.num_forward; i < static_cast<int>(step.schedule.steps.size()); ++i) {
    if (!as<Move>(step.schedule.steps[i].op)) continue;
    ++moves;
    EXPECT_TRUE(refused(without_step(step.schedule, i))) << name(toy.family) << " accepts a list without step " << i
                                                         << ", " << step.schedule.names[step.schedule.steps[i].out[0]];
  }
  EXPECT_GT(moves, 10);
}

constexpr MeshSize kMeshes[] = {{8, 2, 2, 2}, {8, 2, 4, 2}, {8, 4, 2, 4}};

void in_every_family(Toy toy) {
  toy.layers = 2;
  toy.residual = Residual::yes;
  for (const MeshSize& mesh : kMeshes) {
    for (Family family : kFamilies) {
      if (!fits(family, mesh)) continue;
      toy.family = family;
      toy.mesh = mesh;
      expect_every_backward_move_missed(toy);
    }
  }
}

TEST(Backward, is_refused_without_any_one_of_its_moves) { in_every_family({}); }
TEST(Backward, of_padded_chunks_is_refused_without_any_one_of_its_moves) {
  in_every_family({.chunks = 2, .capacity = 8});
}
TEST(Backward, of_chunks_of_rows_is_refused_without_any_one_of_its_moves) { in_every_family({.chunks = 2}); }
TEST(Backward, of_weights_in_slices_is_refused_without_any_one_of_its_moves) {
  in_every_family({.weights = Weights::sharded, .capacity = 8});
}

TEST(Backward, of_tokens_that_cross_once_to_a_node_is_refused_without_any_one_of_its_moves) {
  for (const MeshSize& mesh : kNodeLayouts)
    for (Family family : kNodeFamilies)
      if (fits(family, mesh))
        expect_every_backward_move_missed({.family = family, .mesh = mesh, .layers = 2, .across = Across::node});
}

TEST(Backward, of_mixed_precision_is_refused_without_any_one_of_its_moves) {
  in_every_family({.precision = Precision::mixed});
}

TEST(Backward, names_the_value_and_the_axis_whose_cotangent_is_wrong) {
  const TrainingList list = training_step({.mesh = {4, 2, 2, 2}});
  int leave = list.num_forward;
  while (list.schedule.title(list.schedule.steps[leave]) != "leave") ++leave;
  try {
    check(without_step(list.schedule, leave));
    FAIL();
  } catch (const TypeFault& e) {
    EXPECT_STREQ(
        e.what(),
        "step 29 exchange -> %d_rows: %d_rows over tp.esp: the cotangent of %rows is P, must be I: a move of the "
        "backward list is missing or wrong");
  }
}

TEST(Backward, gives_every_value_a_cotangent_of_its_dual_type) {
  const TrainingList step = training_step({.family = Family::s2, .mesh = {8, 4, 2, 4}});
  const Types types = check(step.schedule);
  EXPECT_GT(step.schedule.cotangent_of.size(), 20u);
  for (const auto& [cotangent, value] : step.schedule.cotangent_of) {
    EXPECT_EQ(types[cotangent].holds, dual(types[value]).holds) << step.schedule.names[cotangent];
    EXPECT_EQ(types[cotangent].dims, types[value].dims) << step.schedule.names[cotangent];
  }
}

TEST(Backward, transposes_a_message_of_several_values_into_one_message) {
  Builder b{Mesh({.ranks = 4, .tp = 1, .esp = 1, .ep = 4})};
  const Atoms dp = b.mesh().axis(Axis::dp);
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8, stack_of(dp)}, {"D", 3}});
  const ValueId w = b.leaf(LeafKind::parameter, "w", {{"D", 3}}), v = b.leaf(LeafKind::parameter, "v", {{"D", 3}});
  const std::vector<ValueId> entered = b.move_all({w, v}, enter_legs(dp));
  const ValueId a = b.add(Einsum{{"T"}}, {x, entered[0]}), c = b.add(Einsum{{"T"}}, {x, entered[1]});
  const ValueId loss = b.leave(b.add(Einsum{}, {a, c}), dp);
  const Differentiated d = differentiate(b.take(), loss);
  const Step& last = d.schedule.steps.back();
  EXPECT_EQ(d.schedule.title(last), "leave");
  EXPECT_EQ(last.out.size(), 2u);
  const Execution run = interpret(d.schedule, feed(d.schedule, {}));
  const Array all = normal_array({8, 3}, "x.0", 0.5), other = normal_array({3}, "v.0", 0.5);
  Array want({3});
  for (int64_t t = 0; t < 8; ++t)
    for (int64_t i = 0; i < 9; ++i) want[i / 3] += all[t * 3 + i / 3] * all[t * 3 + i % 3] * other[i % 3];
  EXPECT_LT(max_difference(global(d.schedule, run, d.gradients.at(w)), want), 1e-12);
}

}  // namespace
}  // namespace plait::oracle
