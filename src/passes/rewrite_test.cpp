// Rewrites: families derived from one another, and nothing but the list changes.
#include "passes/rewrite.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "passes/lower.h"
#include "passes/testing/edits.h"

namespace plait::oracle {
namespace {

Toy toy_at(Family family, const MeshSize& mesh, int64_t capacity) {
  Toy toy{.family = family, .mesh = mesh, .capacity = capacity};
  toy.group = capacity ? 2 : 0;  // gate groups that no family cuts
  return toy;
}

std::string form(const Schedule& schedule, ValueId value) { return fingerprint(schedule, value); }

// The value that the first decode makes.
ValueId decoded(const Schedule& s) { return s.steps[find_step(s, "decode")].out[0]; }

void at_every_layout(auto&& f) {
  for (const MeshSize& mesh : kLayouts)
    for (int64_t capacity : {0, 4}) {
      SCOPED_TRACE(fmt::format("{} capacity {}", describe(mesh), capacity));
      f(mesh, capacity);
    }
}

TEST(Rewrites, dropping_the_duplicates_of_ted_gives_dtd_and_merging_that_gives_s2) {
  int equal = 0;
  at_every_layout([&](const MeshSize& mesh, int64_t capacity) {
    if (!fits(Family::ted, mesh)) return;
    const Model ted = build(toy_at(Family::ted, mesh, capacity)), dtd = build(toy_at(Family::dtd, mesh, capacity));
    const Model s2 = build(toy_at(Family::s2, mesh, capacity));
    const Schedule derived = drop_duplicates(ted.schedule, Axis::tp);
    EXPECT_EQ(form(derived, ted.loss), form(dtd.schedule, dtd.loss));
    EXPECT_EQ(form(merge_moves(derived), ted.loss), form(s2.schedule, s2.loss));
    EXPECT_NE(form(ted.schedule, ted.loss), form(dtd.schedule, dtd.loss));
    ++equal;
  });
  EXPECT_GE(equal, 8);
}

TEST(Rewrites, merged_s1_is_merged_sharded_up_to_the_last_join) {
  at_every_layout([](const MeshSize& mesh, int64_t capacity) {
    const Schedule s1 = merge_moves(build(toy_at(Family::s1, mesh, capacity)).schedule);
    const Schedule sharded = merge_moves(build(toy_at(Family::sharded, mesh, capacity)).schedule);
    EXPECT_EQ(form(s1, decoded(s1)), form(sharded, decoded(sharded)));
  });
}

TEST(Rewrites, change_nothing_that_is_computed) {
  at_every_layout([](const MeshSize& mesh, int64_t capacity) {
    for (Family family : kFamilies) {
      if (!fits(family, mesh)) continue;
      Toy toy = toy_at(family, mesh, capacity);
      toy.layers = 2;
      toy.residual = Residual::yes;
      const Data data{.skew = 1, .mask = {1, 1, 0, 1, 1}};
      Model model = build(toy);
      const Numbers before = perform(model, data).numbers;
      model.schedule = merge_moves(drop_duplicates(model.schedule, Axis::tp));
      EXPECT_LT(max_difference(perform(model, data).numbers, before), 1e-11) << name(family);
    }
  });
}

TEST(MergeMoves, removes_a_join_that_is_sliced_again) {
  Builder b{Mesh({.ranks = 2, .tp = 2, .esp = 2, .ep = 1})};
  const ValueId x = b.leaf(LeafKind::parameter, "x", {{"T", 4, stack_of({0})}});
  const ValueId y = b.slice(b.join(x, {0}, "T"), {0}, "T");
  b.schedule().outputs = {b.leave(b.add(Einsum{}, {y, b.leaf(LeafKind::data, "c", {{"T", 4, stack_of({0})}})}), {0})};
  const Schedule merged = merge_moves(b.schedule());
  EXPECT_EQ(merged.steps.size(), 2u);
  EXPECT_EQ(merged.steps[0].in[0], x);
}

TEST(MergeMoves, keeps_a_value_that_is_read_twice) {
  Builder b{Mesh({.ranks = 2, .tp = 2, .esp = 2, .ep = 1})};
  const ValueId x = b.leaf(LeafKind::parameter, "x", {{"T", 4, stack_of({0})}}), joined = b.join(x, {0}, "T");
  const ValueId entered = b.enter(joined, {0}), c = b.leaf(LeafKind::data, "c", {{"T", 4}});
  b.schedule().outputs = {b.add(Einsum{}, {joined, c})};
  b.add(Einsum{}, {entered, c});
  EXPECT_EQ(merge_moves(b.schedule()).steps, b.schedule().steps);
}

TEST(DropUnused, drops_what_nobody_reads_and_nothing_else) {
  const Model model = build({.mesh = {4, 2, 2, 2}});
  Model longer = model;
  const ValueId extra =
      insert_step(longer.schedule, static_cast<int>(model.schedule.steps.size()), Scale{2}, {model.y});
  insert_step(longer.schedule, static_cast<int>(longer.schedule.steps.size()), Scale{3}, {extra});
  EXPECT_EQ(drop_unused(longer.schedule).steps, model.schedule.steps);
  EXPECT_EQ(drop_unused(model.schedule).steps, model.schedule.steps);
}

TEST(Fingerprint, sees_neither_names_nor_the_order_of_independent_steps) {
  Model a = build({.family = Family::s1, .mesh = {4, 2, 2, 2}}), b = a;
  for (size_t v = b.schedule.leaves.size(); v < b.schedule.names.size(); ++v)
    if (!b.schedule.leaf(static_cast<ValueId>(v))) b.schedule.names[v] = fmt::format("v{}", v);
  std::swap(b.schedule.steps[0], b.schedule.steps[1]);
  ASSERT_NO_THROW(check(b.schedule));
  EXPECT_EQ(form(a.schedule, a.loss), form(b.schedule, b.loss));
  legs_of(b.schedule, find_step(b.schedule, "slice", -1))[0].to.dim = "D";
  EXPECT_NE(form(a.schedule, a.loss), form(b.schedule, b.loss));
}

// Forward, backward, and a plain update of every parameter, as a list whose first part may repeat.
struct Training {
  Schedule schedule;
  std::map<std::string, ValueId> updated;
  int last = 0;  // of the steps that a micro-batch runs
};

Training training(const Toy& toy) {
  const Model model = build(toy);
  const Differentiated d = differentiate(model.schedule, model.loss);
  Training t{.last = static_cast<int>(d.schedule.steps.size())};
  Builder b(d.schedule);
  const ValueId factor = b.leaf(LeafKind::scalar, "factor", std::vector<Dim>{}),
                lr = b.leaf(LeafKind::scalar, "lr", std::vector<Dim>{});
  for (const auto& [leaf, gradient] : d.gradients)
    t.updated[b.schedule().names[leaf]] = b.add(Sgd{0.1}, {leaf, gradient, factor, lr});
  t.schedule = b.take();
  return t;
}

// Parameters after one update by the sum over micro-batches, from the gradients of each alone.
std::map<std::string, Array> updated_by_hand(const Toy& toy, int times) {
  const Model model = build(on_one_rank(toy));
  std::map<std::string, Array> updated;
  std::map<std::string, Array> sums;
  Feed parameters = feed(model.schedule, {});
  const Differentiated d = differentiate(model.schedule, model.loss);
  const Schedule lowered = lower(d.schedule);
  for (int i = 0; i < times; ++i) {
    Feed fed = feed(lowered, {});
    fed[lowered.find("c")] = {normal_array({fed[lowered.find("c")][0].shape}, fmt::format("c{}", i), 1)};
    const Execution run = interpret(lowered, fed);
    for (const auto& [leaf, gradient] : d.gradients) {
      Array& sum = sums.try_emplace(lowered.names[leaf], run.values[leaf][0].shape).first->second;
      add_to(sum, run.values[gradient][0]);
    }
  }
  for (const auto& [leaf, gradient] : d.gradients) {
    Array x = parameters[leaf][0];
    const Array& g = sums.at(lowered.names[leaf]);
    for (int64_t i = 0; i < x.size(); ++i) x[i] -= 0.5 * (0.25 * g[i] + 0.1 * x[i]);
    updated[lowered.names[leaf]] = x;
  }
  return updated;
}

void expect_updates(const Toy& toy, int times) {
  Training t = training(toy);
  const Schedule lowered = lower(repeat_section(t.schedule, {0, t.last, times}));
  Feed fed = feed(lowered, {});
  const ValueId c = lowered.find("c");
  const std::vector<int64_t> shape = fed[c][0].shape;
  fed[c].clear();
  for (int i = 0; i < times; ++i) fed[c].push_back(normal_array(shape, fmt::format("c{}", i), 1));
  fed[lowered.find("factor")] = {Array({}, {0.25})};
  fed[lowered.find("lr")] = {Array({}, {0.5})};
  const Execution run = interpret(lowered, fed);
  for (const auto& [name, want] : updated_by_hand(toy, times))
    EXPECT_LT(max_difference(global(lowered, run, t.updated.at(name)), want), 1e-11) << name << " after " << times;
}

TEST(RepeatSection, updates_by_the_sum_over_micro_batches) {
  for (Family family : {Family::dtd, Family::sharded})
    for (int64_t capacity : {0, 8})
      for (int times : {1, 2, 3})
        expect_updates({.family = family, .mesh = {4, 2, 2, 2}, .capacity = capacity, .group = capacity ? 4 : 0},
                       times);
}

TEST(RepeatSection, once_is_the_list_itself) {
  const Training t = training({.mesh = {4, 2, 2, 2}});
  const Schedule once = repeat_section(t.schedule, {0, t.last, 1});
  EXPECT_EQ(once.steps, t.schedule.steps);
  EXPECT_FALSE(once.repeat);
}

// A random order in which every step comes after those that made what it reads.
Schedule shuffled(const Schedule& s, uint64_t seed) {
  Schedule out = s;
  out.steps.clear();
  std::vector<bool> have(s.names.size(), false), done(s.steps.size(), false);
  for (const Leaf& leaf : s.leaves) have[leaf.value] = true;
  for (uint64_t turn = 0; out.steps.size() < s.steps.size(); ++turn) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < s.steps.size(); ++i)
      if (!done[i] && std::all_of(s.steps[i].in.begin(), s.steps[i].in.end(), [&](ValueId v) { return have[v]; }))
        ready.push_back(i);
    const size_t next = ready[uniform_below(random_key(seed, "order"), turn, ready.size())];
    done[next] = true;
    for (ValueId v : s.steps[next].out) have[v] = true;
    out.steps.push_back(s.steps[next]);
  }
  return out;
}

TEST(Order, of_independent_steps_changes_no_bit) {
  for (Family family : kFamilies) {
    const Outcome o =
        perform(build({.family = family, .mesh = {8, 2, 2, 2}, .layers = 2, .residual = Residual::yes}), {});
    for (uint64_t seed : {1, 2, 3}) {
      const Schedule other = shuffled(o.lowered, seed);
      EXPECT_NE(other.steps, o.lowered.steps);
      const Execution run = interpret(other, feed(other, {}));
      EXPECT_EQ(run.values, o.trace.values) << name(family);
    }
  }
}

}  // namespace
}  // namespace plait::oracle
