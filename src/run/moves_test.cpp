// Messages of several values on threads: what the oracle moves, in one collective.
#include "run/moves.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>

#include "passes/lower.h"
#include "run/executor.h"
#include "schedule/builder.h"
#include "schedule/testing/interpret.h"
#include "wire/ranks.h"
#include "wire/slow.h"

namespace plait {
namespace {

at::Tensor tensor_of(const oracle::Array& x, at::ScalarType dtype) {
  const at::Tensor t = at::empty(x.shape, dtype);
  for (int64_t i = 0; i < x.size(); ++i)
    if (dtype == at::kDouble)
      t.mutable_data_ptr<double>()[i] = x[i];
    else
      t.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(x[i]);
  return t;
}

double difference(const at::Tensor& mine, const oracle::Array& theirs) {
  if (mine.numel() != theirs.size()) return 1e300;
  const at::Tensor x = mine.to(at::kDouble).contiguous();
  double worst = 0;
  for (int64_t i = 0; i < theirs.size(); ++i)
    worst = std::max(worst, std::abs(x.const_data_ptr<double>()[i] - theirs[i]));
  return worst;
}

// Performs a list on all its ranks and by the oracle; every value must agree. Returns the messages that rank 0 sent.
int run_both(const Schedule& schedule, const oracle::Feed& feed) {
  const oracle::Execution want = oracle::interpret(schedule, feed);
  std::atomic<int> messages = 0;
  wire::run_ranks({.ranks = schedule.mesh.ranks(), .timeout = wire::Seconds(20), .threads = 1},
                  [&](int rank, wire::World& world) {
                    wire::SlowWorld counting(world, [&](const std::vector<int>&, double) {
                      if (rank == 0) ++messages;
                      return wire::Seconds(0);
                    });
                    Executor executor(schedule, {.rank = rank, .world = &counting, .dtype = at::kDouble},
                                      {.what = Keep::What::all});
                    executor.run([&](const std::string& leaf, int) {
                      const ValueId v = schedule.find(leaf);
                      const bool real = schedule.leaf(v)->type.dtype == Dtype::real;
                      return tensor_of(want.values[v][rank], real ? at::kDouble : at::kLong);
                    });
                    for (const Step& step : schedule.steps)
                      for (ValueId v : step.out)
                        EXPECT_EQ(difference(executor.value(v), want.values[v][rank]), 0)
                            << schedule.names[v] << " on rank " << rank;
                  });
  return messages;
}

// Two values of other shapes, held alike over all atoms of a mesh of 2 x 2; small integers, so that sums are exact.
struct Pair {
  Builder b{Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2})};
  std::vector<ValueId> values;
  oracle::Feed feed;

  ValueId leaf(const char* name, std::vector<Dim> dims, Hold hold) {
    Type type{.dims = dims, .holds = std::vector<Hold>(2, hold), .grad = true};
    for (const Dim& dim : dims)
      for (const Mark& mark : dim.stack) type.holds[mark.atom] = Hold::S;
    const ValueId v = b.leaf(LeafKind::data, name, type);
    std::vector<int64_t> shape;
    for (const Dim& dim : dims) shape.push_back(dim.size);
    oracle::Array x(shape);
    for (int64_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>((i * 7 + v * 5) % 31);
    feed[v] = {x};
    return v;
  }
};

void expect_one_message(const std::function<std::vector<ValueId>(Pair&)>& before, const Legs& legs) {
  Pair p;
  const std::vector<ValueId> from = before(p);
  const auto messages = [&](auto&& move) {
    Pair copy = p;
    move(copy.b);
    return run_both(copy.b.schedule(), p.feed);
  };
  const int none = messages([](Builder&) {});
  const int together = messages([&](Builder& b) { b.move_all(from, legs); });
  const int apart = messages([&](Builder& b) {
    for (ValueId v : from) b.move(v, legs);
  });
  EXPECT_EQ(together - none, 1);
  EXPECT_EQ(apart - none, 2);
}

std::vector<ValueId> sliced(Pair& p) {
  const std::vector<Mark> stack = stack_of({1, 0});
  return {p.leaf("x", {{"A", 8, stack}, {"B", 4}, {"C", 3}}, Hold::I),
          p.leaf("y", {{"D", 2}, {"A", 4, stack}, {"B", 8}}, Hold::I)};
}

// Partial: the product of two slices over A.
std::vector<ValueId> partial(Pair& p) {
  const std::vector<Mark> stack = stack_of({1, 0});
  const ValueId a = p.leaf("a", {{"A", 8, stack}, {"B", 4}}, Hold::I),
                c = p.leaf("c", {{"A", 8, stack}, {"C", 8}}, Hold::I);
  const ValueId d = p.leaf("d", {{"A", 8, stack}, {"D", 5}}, Hold::I);
  return {p.b.add(Einsum{{"B", "C"}}, {a, c}), p.b.add(Einsum{{"D", "C"}}, {d, c})};
}

TEST(OneMessage, gathers_several_values) { expect_one_message(sliced, gather_legs({1, 0}, "A")); }

TEST(OneMessage, joins_several_values) { expect_one_message(sliced, transpose(slice_legs({1, 0}, "A"))); }

TEST(OneMessage, exchanges_several_values) { expect_one_message(sliced, exchange_legs({0}, "A", "B")); }

TEST(OneMessage, exchanges_and_gathers_several_values) {
  expect_one_message(sliced, {{1, {Hold::S, "A"}, {Hold::R}}, {0, {Hold::S, "A"}, {Hold::S, "B"}}});
}

TEST(OneMessage, scatters_several_values) { expect_one_message(partial, transpose(gather_legs({1, 0}, "C"))); }

TEST(OneMessage, leaves_with_several_values) { expect_one_message(partial, leave_legs({1, 0})); }

TEST(OneMessage, exchanges_and_scatters_several_values) {
  const auto before = [](Pair& p) {
    const ValueId x = p.leaf("x", {{"A", 8, stack_of({1})}, {"B", 2}, {"F", 4, stack_of({0})}}, Hold::I);
    const ValueId y = p.leaf("y", {{"A", 4, stack_of({1})}, {"B", 6}, {"F", 4, stack_of({0})}}, Hold::I);
    const ValueId w = p.leaf("w", {{"F", 4, stack_of({0})}, {"G", 2}}, Hold::I);
    const ValueId own = p.b.enter(w, {1});
    return std::vector{p.b.add(Einsum{{"A", "B", "G"}}, {x, own}), p.b.add(Einsum{{"A", "B", "G"}}, {y, own})};
  };
  expect_one_message(before, {{1, {Hold::S, "A"}, {Hold::S, "B"}}, {0, {Hold::P}, {Hold::S, "A"}}});
}

// Rows of two routings, and two values of one of them: uneven, some cells empty.
TEST(OneMessage, carries_rows_of_several_routings) {
  Pair p;
  const Atoms all = {1, 0};
  const auto integers = [&](const char* name, int which) {
    Type type{.dims = {{"T", 16, stack_of(all)}, {"K", 2}},
              .holds = {Hold::S, Hold::S},
              .dtype = Dtype::integer,
              .grad = false};
    const ValueId v = p.b.leaf(LeafKind::data, name, type);
    oracle::Array x({16, 2});
    for (int64_t i = 0; i < x.size(); ++i)
      x[i] = which < 0 ? (i % 5 == 0 ? -1.0 : 0.0) : static_cast<double>((i / 2 * which + i % 2 * 3) % 4);
    p.feed[v] = {x};
    return v;
  };
  const ValueId x = p.leaf("x", {{"T", 16, stack_of(all)}, {"D", 3}}, Hold::I),
                w = p.leaf("w", {{"T", 16, stack_of(all)}, {"K", 2}}, Hold::I);
  const ValueId slot = integers("slot", -1);
  const Routing a{.id = "a", .experts = 4, .top_k = 2}, c{.id = "c", .experts = 4, .top_k = 2};
  const auto at = p.b.add_all(Count{a}, {integers("idx", 3), slot}),
             ct = p.b.add_all(Count{c}, {integers("idx2", 0), slot});
  std::vector<ValueId> rows = {p.b.add(Encode{a}, {x, at[1]}), p.b.add(Encode{a}, {w, at[1]}),
                               p.b.add(Encode{c}, {x, ct[1]})};
  const Legs out = {{1, {Hold::S, "g1"}, {Hold::S, "E"}}, {0, {Hold::S, "g0"}, {Hold::R}}};
  const auto messages = [&](auto&& move) {
    Builder b = p.b;
    move(b);
    return run_both(lower(b.schedule()), p.feed);
  };
  const int none = messages([](Builder&) {}), there = messages([&](Builder&b) { b.move_all(rows, out); });
  const int back = messages([&](Builder& b) {
    std::vector<ValueId> moved = b.move_all(b.move_all(rows, {out[0]}), {out[1]});
    for (ValueId& v : moved) v = b.add(Scale{2}, {v});
    moved = b.move_all(moved, legs({0}, {Hold::R}, {Hold::S, "g0"}));
    b.move_all(moved, transpose({out[0]}));
  });
  const int counts = 2;  // one exchange of counts for each routing
  EXPECT_EQ(there - none, 1 + counts);
  EXPECT_EQ(back - none, 3 + counts);
}

}  // namespace
}  // namespace plait
