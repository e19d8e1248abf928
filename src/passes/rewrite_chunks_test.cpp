// Pipelines of other numbers of messages over the same chunks: the same bits, and so many messages fewer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "passes/lower.h"
#include "passes/rewrite.h"
#include "passes/testing/edits.h"
#include "schedule/typing.h"
#include "schedule/wire_bytes.h"

namespace plait::oracle {
namespace {

constexpr int kParts = 4;

int size(const Schedule& s) { return static_cast<int>(s.steps.size()); }

// Forward in so many messages, backward in so many.
Differentiated in_messages(const Model& model, int forward, int backward) {
  Differentiated d = differentiate(model.schedule, model.loss);
  d.schedule = join_chunks(d.schedule, {d.num_forward, size(d.schedule), kParts / backward});
  const int before = size(d.schedule);
  d.schedule = join_chunks(d.schedule, {0, d.num_forward, kParts / forward});
  d.num_forward -= before - size(d.schedule);
  return d;
}

void everywhere(auto&& f) {
  std::vector<Toy> toys;
  for (const MeshSize& mesh : {MeshSize{4, 2, 2, 2}, {8, 2, 4, 2}, {8, 4, 2, 4}})
    for (Family family : kFamilies)
      for (int64_t capacity : {0, 16})
        if (fits(family, mesh)) toys.push_back({.family = family, .mesh = mesh, .capacity = capacity});
  for (Family family : kNodeFamilies)
    toys.push_back({.family = family, .mesh = {8, 2, 2, 4, 4}, .across = Across::node});
  for (Toy& toy : toys) {
    SCOPED_TRACE(fmt::format("{} {} capacity {}", name(toy.family), describe(toy.mesh), toy.capacity));
    toy.tokens = 16;
    toy.layers = 2;
    toy.chunks = kParts;
    toy.residual = Residual::yes;
    f(build(toy));
  }
}

// Messages of rows in steps [first, last), by kind.
std::map<std::string, int> messages(const Schedule& s, int first, int last) {
  const Types types = check(s);
  std::map<std::string, int> n;
  for (int i = first; i < last; ++i) {
    const Step& step = s.steps[i];
    if (as<Move>(step.op) && types[step.in[0]].has("E") && types[step.in[0]].has("C") &&
        wire_cost(s, types, step, Item::all(8)).collective != Collective::none)
      ++n[s.title(step)];
  }
  return n;
}

TEST(JoinChunks, gives_the_same_bits_in_every_combination) {
  const Data data{.skew = 1, .mask = {1, 1, 0, 1, 1}};
  everywhere([&](const Model& model) {
    const Outcome apart = perform(model, data);
    for (const auto& [forward, backward] : {std::pair{1, 4}, {4, 2}, {2, 1}}) {
      const Schedule joined = lower(in_messages(model, forward, backward).schedule);
      const Execution run = interpret(joined, feed(joined, data));
      for (const auto& [leaf, gradient] : apart.differentiated.gradients)
        EXPECT_EQ(run.values[gradient], apart.trace.values[gradient]) << joined.names[leaf] << forward << backward;
      EXPECT_EQ(run.values[model.loss], apart.trace.values[model.loss]);
    }
  });
}

TEST(JoinChunks, sends_as_many_messages_a_pass_as_it_is_told) {
  everywhere([](const Model& model) {
    const Differentiated apart = in_messages(model, kParts, kParts);
    const auto all = messages(apart.schedule, 0, apart.num_forward);
    const auto back = messages(apart.schedule, apart.num_forward, size(apart.schedule));
    for (const auto& [forward, backward] : {std::pair{1, 4}, {4, 2}, {2, 1}}) {
      const Differentiated d = in_messages(model, forward, backward);
      for (const auto& [title, n] : all)
        EXPECT_EQ(messages(d.schedule, 0, d.num_forward)[title] * kParts, n * forward) << title;
      for (const auto& [title, n] : back)
        EXPECT_EQ(messages(d.schedule, d.num_forward, size(d.schedule))[title] * kParts, n * backward) << title;
    }
  });
}

TEST(JoinChunks, moves_no_more_bytes) {
  const Model model = build({.family = Family::sharded, .mesh = {8, 2, 2, 2}, .tokens = 16, .chunks = kParts});
  const auto bytes = [](const Schedule& s) {
    const Types types = check(s);
    double sum = 0;
    for (const Step& step : s.steps) sum += wire_cost(s, types, step, Item::all(8)).bytes;
    return sum;
  };
  EXPECT_DOUBLE_EQ(bytes(in_messages(model, 1, 2).schedule), bytes(in_messages(model, 4, 4).schedule));
}

TEST(Moves, of_rows_beside_values_of_fixed_size_are_refused) {
  Model model = build({.family = Family::sharded, .mesh = {4, 2, 2, 2}});
  Step& exchange = model.schedule.steps[find_step(model.schedule, "exchange")];
  Builder b{Mesh({4, 2, 2, 2})};
  const ValueId dense = b.leaf(LeafKind::data, "x", {{"g1", 2, stack_of({1})}, {"E", 4}});
  model.schedule.names.push_back("dense");
  const ValueId v = static_cast<ValueId>(model.schedule.names.size()) - 1;
  model.schedule.leaves.push_back({v, LeafKind::data, b.type(dense)});
  exchange.in.push_back(v);
  exchange.out.push_back(model.schedule.add_value("moved"));
  try {
    check(model.schedule);
    FAIL() << "accepted";
  } catch (const TypeFault& e) {
    EXPECT_NE(std::string(e.what()).find("do not travel beside values of fixed size such as %dense"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace plait::oracle
