// Another order of a list: the same bits, and messages that travel while there is something to compute.
#include "passes/order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "passes/lower.h"
#include "passes/rewrite.h"
#include "passes/testing/edits.h"

namespace plait::oracle {
namespace {

Pace random_pace(const Schedule& s, uint64_t seed) {
  Pace pace{.lanes = lanes(s, 2)};
  for (size_t i = 0; i < s.steps.size(); ++i)
    pace.seconds.push_back(static_cast<double>(uniform_below(random_key(seed, "pace"), i, 10)));
  return pace;
}

TEST(Reorder, changes_no_bit_whatever_the_pace) {
  for (Family family : kFamilies)
    for (int64_t capacity : {0, 8}) {
      const Outcome o = perform(build({.family = family,
                                       .mesh = {8, 2, 2, 2},
                                       .layers = 2,
                                       .chunks = 2,
                                       .residual = Residual::yes,
                                       .capacity = capacity}),
                                {.mask = {1, 1, 0, 1, 0, 0, 0, 1, 1}});
      for (const Pace& pace : {even_pace(o.lowered, 2), random_pace(o.lowered, 1), random_pace(o.lowered, 2)}) {
        const Schedule other = reorder(o.lowered, pace);
        EXPECT_NE(other.steps, o.lowered.steps);
        EXPECT_TRUE(std::is_permutation(other.steps.begin(), other.steps.end(), o.lowered.steps.begin()));
        EXPECT_EQ(interpret(other, feed(other, {.mask = {1, 1, 0, 1, 0, 0, 0, 1, 1}})).values, o.trace.values)
            << name(family);
      }
    }
}

// Forward, backward and an update of every parameter; the first `last` steps may repeat.
struct Training {
  Schedule schedule;
  int last = 0;
};

Training training(const Toy& toy) {
  const Model model = build(toy);
  const Differentiated d = differentiate(model.schedule, model.loss);
  Training t{.last = static_cast<int>(d.schedule.steps.size())};
  Builder b(d.schedule);
  const ValueId factor = b.leaf(LeafKind::scalar, "factor", std::vector<Dim>{}),
                lr = b.leaf(LeafKind::scalar, "lr", std::vector<Dim>{});
  for (const auto& [leaf, gradient] : d.gradients) b.add(Sgd{0.1}, {leaf, gradient, factor, lr});
  t.schedule = b.take();
  return t;
}

TEST(Reorder, keeps_a_repeated_section_and_updates_in_place) {
  for (int times : {1, 3}) {
    const Training t = training({.family = Family::s2, .mesh = {4, 2, 2, 2}, .layers = 2});
    const Schedule s = lower(repeat_section(t.schedule, {0, t.last, times}));
    const Schedule other = reorder(s, even_pace(s, 2));
    EXPECT_EQ(other.repeat, s.repeat);
    EXPECT_EQ(interpret(other, feed(other, {})).values, interpret(s, feed(s, {})).values);
  }
}

TEST(Reorder, puts_an_update_behind_the_readers_of_whatever_shares_its_memory) {
  Builder b{Mesh({.ranks = 2, .tp = 1, .esp = 1, .ep = 2})};
  const Atoms dp = b.mesh().axis(Axis::dp);
  const auto leaf = [&](const char* name) { return b.leaf(LeafKind::parameter, name, {{"D", 4}}); };
  const ValueId w = leaf("w"), gradient = leaf("g"),
                x = b.leaf(LeafKind::data, "x", {{"T", 4, stack_of(dp)}, {"D", 4}});
  const ValueId factor = b.leaf(LeafKind::scalar, "factor", std::vector<Dim>{});
  const ValueId entered = b.enter(w, dp);
  b.add(Einsum{{"T"}}, {x, entered});
  b.add(Sgd{}, {w, gradient, factor, factor});
  Pace pace = even_pace(b.schedule(), 1);
  pace.seconds = {0, 0, 100};  // the update is the longest way to the end
  EXPECT_EQ(reorder(b.schedule(), pace).steps, b.schedule().steps);
}

// A stack of products with messages between them, as a layer of experts is.
struct Chain {
  Differentiated d;
  std::vector<ValueId> x, w;  // before each product
};

Chain chain(int layers) {
  Builder b{Mesh({.ranks = 4, .tp = 4, .esp = 4, .ep = 1})};
  const Atoms tp = b.mesh().axis(Axis::tp);
  Chain c;
  ValueId x = b.leaf(LeafKind::parameter, "x", {{"T", 8, stack_of(tp)}, {"D", 4}});
  for (int i = 0; i < layers; ++i) {
    const ValueId w = b.enter(b.leaf(LeafKind::parameter, fmt::format("w{}", i), {{"D", 4}, {"H", 4}}), tp);
    const ValueId v = b.leaf(LeafKind::parameter, fmt::format("v{}", i), {{"T", 8}, {"H", 4, stack_of(tp)}, {"D", 4}});
    c.x.push_back(x);
    c.w.push_back(w);
    const ValueId out = b.exchange(b.add(Activate{}, {b.add(Einsum{{"T", "H"}}, {x, w})}), tp, "T", "H");
    x = b.scatter(b.add(Einsum{{"T", "D"}}, {out, v}), tp, "T");
  }
  const ValueId y = b.leaf(LeafKind::data, "y", {{"T", 8, stack_of(tp)}, {"D", 4}});
  const ValueId loss = b.leave(b.add(Einsum{}, {x, y}), tp);
  b.schedule().outputs = {loss};
  c.d = differentiate(b.take(), loss);
  return c;
}

// The step that makes the cotangent of a value.
int cotangent_at(const Schedule& s, ValueId of) {
  for (size_t i = 0; i < s.steps.size(); ++i)
    for (ValueId v : s.steps[i].out)
      if (const auto it = s.cotangent_of.find(v); it != s.cotangent_of.end() && it->second == of)
        return static_cast<int>(i);
  return -1;
}

TEST(Reorder, puts_the_gradient_of_an_input_before_that_of_its_weight) {
  const Chain c = chain(4);
  const Schedule other = reorder(c.d.schedule, even_pace(c.d.schedule, 8));
  for (int i = 1; i < 4; ++i)  // of the first layer only the weight leads to a message
    EXPECT_LT(cotangent_at(other, c.x[i]), cotangent_at(other, c.w[i])) << i;
}

// Exchanges and gathers of cotangents with a product between them and what reads them.
int messages_with_work(const Schedule& s) {
  int filled = 0;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const std::string title = s.title(s.steps[i]);
    if (!s.cotangent_of.count(s.steps[i].out[0]) || (title != "exchange" && title != "gather")) continue;
    bool work = false;
    for (size_t j = i + 1; j < s.steps.size(); ++j) {
      const std::vector<ValueId>& in = s.steps[j].in;
      if (std::find(in.begin(), in.end(), s.steps[i].out[0]) != in.end()) break;
      work |= as<Einsum>(s.steps[j].op) != nullptr;
    }
    filled += work;
  }
  return filled;
}

TEST(Reorder, fills_the_time_in_which_messages_travel_with_gradients_of_weights) {
  const Chain c = chain(4);
  EXPECT_EQ(messages_with_work(c.d.schedule), 0);
  EXPECT_GE(messages_with_work(reorder(c.d.schedule, even_pace(c.d.schedule, 8))), 6);  // of 8
}

TEST(Reorder, starts_each_bucket_of_gradients_before_the_last_gradient_is_made) {
  const Chain c = chain(4);
  const Schedule other = reorder(split_messages(c.d.schedule, 0), even_pace(c.d.schedule, 8));
  const int last = cotangent_at(other, c.w[0]);
  int early = 0;
  for (int i = 0; i < last; ++i) {
    const Step& step = other.steps[i];
    early += other.title(step) == "leave" && other.names[step.out[0]].starts_with("d_w");
  }
  EXPECT_GE(early, 2);
}

TEST(Reorder, needs_a_lane_and_a_time_for_each_step) {
  const Chain c = chain(1);
  EXPECT_ANY_THROW(reorder(c.d.schedule, {}));
}

}  // namespace
}  // namespace plait::oracle
