// A list on one rank computes what the list on many does, and what the same model written for one rank does.
#include "passes/one_rank.h"

#include <gtest/gtest.h>

#include "passes/loss.h"
#include "passes/lower.h"
#include "passes/testing/families.h"
#include "schedule/text.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

const Data kData{.mask = {1, 0, 1, 1, 1, 1, 0, 1}};

// The greatest difference of the loss and the gradients of a run from those of an outcome.
double difference(const Outcome& many, const OneRank& one) {
  const Schedule s = lowered(one.schedule);
  const Execution run = interpret(s, feed(s, kData));
  const auto whole = [&](ValueId v) { return global(s, run, one.global[v]); };
  double worst = std::abs(whole(many.differentiated.schedule.outputs[0])[0] - many.numbers.loss);
  for (const auto& [leaf, gradient] : many.differentiated.gradients)
    worst = std::max(worst, max_difference(whole(gradient), many.numbers.gradients.at(many.lowered.names[leaf])));
  return worst;
}

std::vector<Toy> toys() {
  std::vector<Toy> all;
  for (const MeshSize& mesh : kLayouts)
    for (Family family : kFamilies)
      for (int64_t capacity : {0, 2}) {
        if (!fits(family, mesh) || family == Family::parm || mesh.ranks > 8) continue;
        Toy toy{.family = family, .mesh = mesh, .chunks = capacity ? 1 : 2, .residual = Residual::yes};
        if (capacity && gate_group(toy) % mesh.tp == 0) toy.capacity = gate_group(toy), toy.drop = Drop::position;
        all.push_back(toy);
      }
  for (const MeshSize& mesh : kNodeLayouts)
    for (Family family : kNodeFamilies)
      if (fits(family, mesh)) all.push_back({.family = family, .mesh = mesh, .across = Across::node});
  all.push_back({.family = Family::s1, .mesh = {4, 2, 2, 2}, .cells = Cells::padded});
  all.push_back({.mesh = {4, 2, 2, 2}, .weights = Weights::sharded, .precision = Precision::mixed});
  return all;
}

std::string describe(const Toy& toy) {
  return fmt::format("{} on {} capacity {} chunks {}", name(toy.family), oracle::describe(toy.mesh), toy.capacity,
                     toy.chunks);
}

TEST(OneRank, computes_what_many_compute_before_and_behind_the_other_passes) {
  int compared = 0;
  for (const Toy& toy : toys()) {
    const Model model = build(toy);
    const Outcome many = perform(model, kData);
    EXPECT_LT(difference(many, on_one_rank(many.differentiated.schedule)), 1e-9) << describe(toy);
    EXPECT_LT(difference(many, on_one_rank(many.lowered)), 1e-9) << describe(toy);
    ++compared;
  }
  EXPECT_GT(compared, 60);
}

TEST(OneRank, differentiates_to_the_same_gradients) {
  for (const Toy& toy : toys()) {
    const Model model = build(toy);
    const Outcome many = perform(model, kData);
    const OneRank one = on_one_rank(model.schedule);
    const Differentiated whole = differentiate(one.schedule, one.global[model.loss]);
    const Schedule s = lower(whole.schedule);
    const Execution run = interpret(s, feed(s, kData));
    for (const auto& [leaf, gradient] : many.differentiated.gradients)
      EXPECT_LT(
          max_difference(global(s, run, whole.gradients.at(leaf)), many.numbers.gradients.at(many.lowered.names[leaf])),
          1e-9)
          << describe(toy) << ": " << many.lowered.names[leaf];
  }
}

TEST(OneRank, sees_a_list_that_types_and_still_computes_something_else) {
  const Model model = build({.mesh = {4, 2, 2, 2}});
  const Outcome many = perform(model, kData);
  OneRank one = on_one_rank(many.differentiated.schedule);
  for (Step& step : one.schedule.steps)
    if (Activate* act = std::get_if<Activate>(&step.op)) act->act = Act::relu;
  EXPECT_GT(difference(many, one), 1e-3);
}

TEST(OneRank, has_no_moves_and_no_axes) {
  const Schedule one = on_one_rank(build({.family = Family::s2, .mesh = {8, 4, 2, 4}}).schedule).schedule;
  EXPECT_EQ(one.mesh.ranks(), 1);
  for (const Step& step : one.steps) EXPECT_EQ(as<Move>(step.op), nullptr);
  EXPECT_EQ(print(parse_schedule(print(one))), print(one));
}

TEST(OneRank, of_copies_and_of_packed_values_is_refused) {
  const auto refusal = [](const Schedule& s) -> std::string {
    try {
      on_one_rank(s);
      return "accepted";
    } catch (const InputError& e) {
      return e.what();
    }
  };
  EXPECT_EQ(refusal(build({.family = Family::parm, .mesh = {4, 2, 2, 2}}).schedule).substr(0, 4), "dup ");
  const std::string packed =
      "plait schedule 1\nmesh ranks=2 tp=2 esp=2 ep=1\nleaf parameter %x : real [T=4/tp.esp]\n"
      "%z = pack(%x) size=3\n%y = unpack(%z) dims=[T=4/tp.esp]\n";
  EXPECT_EQ(refusal(parse_schedule(packed)),
            "pack -> %z: lies as the ranks that share it out: this list has no form on one rank");
}

TEST(Loss, is_the_named_value_or_the_first_output_that_is_a_real_scalar) {
  const Schedule s = parse_schedule(
      "plait schedule 1\nmesh ranks=2 tp=2 esp=2 ep=1\nleaf parameter %x : real [T=4]\nleaf parameter %y : real []\n"
      "%z = scale(%y) factor=2\noutputs %x %y\n");
  EXPECT_EQ(loss_of(s), s.find("y"));
  EXPECT_EQ(loss_of(s, "%z"), s.find("z"));
  for (const auto& [name, says] :
       std::map<std::string, std::string>{{"x", "loss %x: is real [T=4], expected real [], held I on every axis"},
                                          {"lss", "loss %lss: no such value"}}) {
    try {
      loss_of(s, name);
      ADD_FAILURE() << name;
    } catch (const InputError& e) {
      EXPECT_EQ(e.what(), says);
    }
  }
  Schedule none = s;
  none.outputs = {s.find("x")};
  EXPECT_THROW(loss_of(none), InputError);
}

}  // namespace
}  // namespace plait::oracle
