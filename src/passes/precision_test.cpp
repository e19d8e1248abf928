// Mixed precision: where a list must say that it casts, what its backward list sums in, and that it computes the same.
#include <gtest/gtest.h>

#include "passes/rewrite.h"
#include "passes/testing/edits.h"
#include "schedule/text.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

const Toy kMixed = {
    .family = Family::sharded, .mesh = {8, 2, 2, 2}, .residual = Residual::yes, .precision = Precision::mixed};

std::string answer(const Schedule& schedule) {
  try {
    check(schedule);
    return "accepted";
  } catch (const TypeFault& e) {
    return e.what();
  }
}

// The schedule whose nth cast is left out.
Schedule without_cast(int nth) {
  Model model = build(kMixed);
  drop_step(model, find_step(model.schedule, "cast", nth));
  return model.schedule;
}

TEST(Precision, mixed_computes_in_every_family_what_one_rank_computes) {
  for (const MeshSize& mesh : {MeshSize{4, 2, 2, 2}, MeshSize{8, 4, 2, 4}}) {
    for (Family family : kFamilies) {
      if (!fits(family, mesh)) continue;
      Toy toy = kMixed;
      toy.family = family;
      toy.mesh = mesh;
      EXPECT_LT(max_difference(perform(build(toy), {}).numbers, perform(build(on_one_rank(toy)), {}).numbers), 1e-9);
    }
  }
}

TEST(Precision, refuses_every_list_that_lacks_one_of_its_casts) {
  const Schedule whole = build(kMixed).schedule;
  int casts = 0;
  for (const Step& step : whole.steps) casts += as<Cast>(step.op) != nullptr;
  ASSERT_GE(casts, 5);
  for (int i = 0; i < casts; ++i) EXPECT_NE(answer(without_cast(i)), "accepted") << "without cast " << i;
  EXPECT_NE(answer(without_cast(-2)).find("is full, einsum needs real: cast it"), std::string::npos)
      << answer(without_cast(-2));
}

TEST(Precision, of_a_gate_is_full) {
  Model model = build(kMixed);
  insert_after(model, find_step(model.schedule, "einsum", 1), Cast{Dtype::real});
  EXPECT_NE(answer(model.schedule).find("is real, route needs full: cast it"), std::string::npos)
      << answer(model.schedule);
}

TEST(Precision, refuses_a_cast_to_what_a_value_is_already) {
  Model model = build(kMixed);
  insert_after(model, find_step(model.schedule, "cast"), Cast{Dtype::real});
  EXPECT_NE(answer(model.schedule).find("is real already"), std::string::npos);
}

TEST(Precision, of_one_type_casts_nothing) {
  Model model = build({.mesh = {4, 2, 2, 2}});
  const int sum = find_step(model.schedule, "leave");
  insert_after(model, sum, Cast{Dtype::full});
  const Types types = check(model.schedule);
  EXPECT_EQ(types.back(), types[model.schedule.steps[sum].out[0]]);
}

TEST(Precision, parses_from_its_own_text) {
  const Model model = build(kMixed);
  const Schedule whole = differentiate(model.schedule, model.loss).schedule;
  const std::string text = print(whole);
  EXPECT_NE(text.find("\nprecision mixed\n"), std::string::npos);
  EXPECT_NE(text.find(" to=real : real ["), std::string::npos);
  EXPECT_EQ(print(parse_schedule(text)), text);
}

// Whether every sum over ranks of a parameter's gradient adds elements of this type.
bool gradients_are_summed_in(const Schedule& s, const std::map<ValueId, ValueId>& gradients, Dtype dtype) {
  const Types types = check(s);
  const std::vector<int> made = makers(s);
  for (const auto& [leaf, gradient] : gradients) {
    const Step& last = s.steps[made[gradient]];
    const ValueId sum = as<Cast>(last.op) ? last.in[0] : gradient;
    if (s.names[leaf].starts_with("W") && !s.names[leaf].starts_with("Wg") && types[sum].dtype != dtype) return false;
  }
  return true;
}

TEST(Precision, sums_gradients_in_full_where_it_is_told_to) {
  for (Weights weights : {Weights::whole, Weights::sharded}) {
    Toy toy = kMixed;
    toy.weights = weights;
    const Model model = build(toy);
    const Differentiated d = differentiate(model.schedule, model.loss);
    EXPECT_TRUE(gradients_are_summed_in(d.schedule, d.gradients, Dtype::real));
    const Schedule full = sum_in_full(d.schedule);
    EXPECT_TRUE(gradients_are_summed_in(full, d.gradients, Dtype::full));
    EXPECT_EQ(full.steps.size(), d.schedule.steps.size());
  }
}

}  // namespace
}  // namespace plait::oracle
