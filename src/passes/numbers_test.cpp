// What families of schedules compute on many ranks, against the same program on one.
#include <gtest/gtest.h>

#include "passes/lower.h"
#include "passes/testing/families.h"

namespace plait::oracle {
namespace {

const std::vector<double> kUneven = {1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0,
                                     0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0};

std::vector<double> only_token(int64_t t) {
  std::vector<double> mask(128, 0.0);
  mask[t] = 1;
  return mask;
}

int64_t dropped(const Outcome& o) {
  int64_t n = 0;
  for (const Step& step : o.lowered.steps) {
    if (!as<Route>(step.op)) continue;
    for (size_t r = 0; r < o.trace.values[step.out[1]].size(); ++r) {
      const Array &idx = o.trace.values[step.out[1]][r], &slot = o.trace.values[step.out[2]][r];
      for (int64_t i = 0; i < idx.size(); ++i) n += idx[i] >= 0 && slot[i] < 0;
    }
  }
  return n;
}

std::string at(const Toy& toy) { return fmt::format("{} at {}", name(toy.family), describe(toy.mesh)); }

// Calls f with the toy in each family at each layout that it fits.
void everywhere(Toy toy, auto&& f) {
  for (const MeshSize& mesh : kLayouts) {
    for (Family family : kFamilies) {
      if (!fits(family, mesh)) continue;
      toy.family = family;
      toy.mesh = mesh;
      f(toy);
    }
  }
}

void expect_exact(const Toy& toy, const Outcome& many, const Data& data) {
  const Outcome one = perform(build(on_one_rank(toy)), data);
  EXPECT_LT(max_difference(many.numbers, one.numbers), 1e-10) << at(toy);
}

void expect_exact_everywhere(const Toy& toy, const Data& data) {
  everywhere(toy, [&](const Toy& here) { expect_exact(here, perform(build(here), data), data); });
}

void expect_exact_with_drops(Toy toy, const Data& data) {
  everywhere(toy, [&](Toy here) {
    here.capacity = gate_group(here) / 2;
    const Outcome many = perform(build(here), data);
    EXPECT_GT(dropped(many), 0) << at(here);
    expect_exact(here, many, data);
  });
}

TEST(Dropless, equals_one_rank_in_every_family_and_layout) { expect_exact_everywhere({}, {}); }
TEST(Dropless, equals_one_rank_with_uneven_and_empty_ranks) { expect_exact_everywhere({}, {.mask = kUneven}); }
TEST(Dropless, equals_one_rank_with_a_single_token) { expect_exact_everywhere({}, {.mask = only_token(5)}); }
TEST(Dropless, equals_one_rank_without_any_token) { expect_exact_everywhere({}, {.mask = {0}}); }
TEST(Dropless, equals_one_rank_when_all_tokens_choose_two_experts) {
  expect_exact_everywhere({}, {.skew = 30});
  expect_exact_everywhere({}, {.skew = 30, .mask = kUneven});
}
TEST(Dropless, equals_one_rank_through_two_residual_layers) {
  expect_exact_everywhere({.layers = 2, .residual = Residual::yes}, {.mask = kUneven});
}
TEST(Dropless, equals_one_rank_with_weights_stored_in_slices) {
  expect_exact_everywhere({.width = 8, .weights = Weights::sharded}, {.mask = kUneven});
}
TEST(Dropless, equals_one_rank_with_one_route_a_token) {
  expect_exact_everywhere({.top_k = 1, .normalize = Normalize::none}, {.mask = kUneven});
}

TEST(Dropless, equals_one_rank_in_chunks_of_rows) {
  for (int chunks : {2, 3}) expect_exact_everywhere({.chunks = chunks}, {.mask = kUneven});
  expect_exact_everywhere({.layers = 2, .chunks = 2, .residual = Residual::yes}, {.skew = 30, .mask = only_token(5)});
}

// Sets the scale of each backward dup and pick back to one.
Schedule without_scales(Schedule s, int num_forward) {
  for (size_t i = num_forward; i < s.steps.size(); ++i)
    std::visit(
        []<class T>(T& op) {
          if constexpr (std::is_same_v<T, Dup> || std::is_same_v<T, Pick>) op.scale = 1;
        },
        s.steps[i].op);
  return s;
}

TEST(Copies, unscaled_give_every_parameter_between_dup_and_pick_tp_times_its_gradient) {
  const Model model = build({.family = Family::parm, .mesh = {8, 4, 2, 4}});
  const Outcome right = perform(model, {});
  const Schedule lowered = lower(without_scales(right.differentiated.schedule, right.differentiated.num_forward));
  const Execution wrong = interpret(lowered, feed(lowered, {}));
  for (const auto& [leaf, gradient] : right.differentiated.gradients) {
    const std::string& of = lowered.names[leaf];
    Array want = right.numbers.gradients.at(of);
    if (of.ends_with("_0"))  // the gate's and the experts' weights
      for (double& g : want.data) g *= 4;
    EXPECT_LT(max_difference(global(lowered, wrong, gradient), want), 1e-12) << of;
  }
}

TEST(Capacity, equals_one_rank_where_everything_fits) {
  expect_exact_everywhere({.capacity = 8}, {});
  expect_exact_everywhere({.capacity = 8}, {.skew = 30, .mask = kUneven});
}
TEST(Capacity, equals_one_rank_with_drops_by_position) { expect_exact_with_drops({.drop = Drop::position}, {}); }
TEST(Capacity, equals_one_rank_with_drops_by_probability) {
  expect_exact_with_drops({.drop = Drop::probs}, {});
  expect_exact_with_drops({.drop = Drop::probs, .normalize = Normalize::after}, {.skew = 2});
}
TEST(Capacity, equals_one_rank_through_two_residual_layers_in_chunks) {
  expect_exact_everywhere({.layers = 2, .chunks = 2, .residual = Residual::yes, .capacity = 8}, {.mask = kUneven});
}
TEST(Capacity, equals_one_rank_with_weights_stored_in_slices) {
  expect_exact_everywhere({.width = 8, .weights = Weights::sharded, .capacity = 8}, {});
}

TEST(Capacity, drops_alike_in_every_family_with_the_same_gate_groups) {
  Toy toy{.mesh = {8, 2, 2, 4}, .capacity = 2, .group = 4, .drop = Drop::probs};
  const Numbers one = perform(build(on_one_rank(toy)), {.skew = 2}).numbers;
  for (Family family : kFamilies) {
    toy.family = family;
    const Outcome many = perform(build(toy), {.skew = 2});
    EXPECT_GT(dropped(many), 0) << at(toy);
    EXPECT_LT(max_difference(many.numbers, one), 1e-10) << at(toy);
  }
}

TEST(Capacity, lets_another_grouping_drop_others) {
  Toy toy{.mesh = {8, 2, 2, 4}, .capacity = 2, .group = 4, .drop = Drop::position};
  const Numbers fours = perform(build(toy), {}).numbers;
  toy.group = 8;
  EXPECT_GT(max_difference(perform(build(toy), {}).numbers, fours), 1e-3);
}

TEST(Capacity, without_drops_equals_dropless) {
  const Toy dropless{.mesh = {4, 2, 2, 2}}, padded{.mesh = {4, 2, 2, 2}, .capacity = 8};
  EXPECT_LT(max_difference(perform(build(dropless), {}).numbers, perform(build(padded), {}).numbers), 1e-12);
}

}  // namespace
}  // namespace plait::oracle
