// Messages made of nothing but their plans: what they bring is what the oracle moves leg by leg.
#include "schedule/message_plan.h"

#include <gtest/gtest.h>

#include "schedule/builder.h"
#include "schedule/testing/transfer.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

using oracle::Array;
using oracle::PerRank;

// The message that a rank has for a part: its pieces of `width` elements, one behind the other.
std::vector<double> packed(const Array& value, const std::vector<Pieces>& part, int64_t width) {
  std::vector<double> message;
  for (const Pieces& run : part)
    for (int64_t i = 0; i < run.times; ++i)
      for (int64_t e = 0; e < run.count * width; ++e)
        message.push_back(value[(run.first + i * run.stride) * width + e]);
  return message;
}

void add(const std::vector<double>& message, const std::vector<Pieces>& part, int64_t width, Array& result) {
  size_t at = 0;
  for (const Pieces& run : part)
    for (int64_t i = 0; i < run.times; ++i)
      for (int64_t e = 0; e < run.count * width; ++e) result[(run.first + i * run.stride) * width + e] += message[at++];
  EXPECT_EQ(at, message.size()) << "what one sends the other expects";
}

// A part of each side by member, or the one part that all share.
const std::vector<Pieces>& part_of(const Side& side, size_t member) {
  return side.parts[side.parts.size() == 1 ? 0 : member];
}

struct Sides {
  std::vector<MessagePlan> plans;  // by rank
  std::vector<Parcel> parcels;
};

PerRank carried(const Sides& all, const PerRank& local, PerRank results) {
  const auto width = all.plans[0].cuts[0].width;
  for (int q = 0; q < static_cast<int>(results.size()); ++q) {
    const std::vector<int>& members = all.plans[q].members;
    const size_t place = std::ranges::find(members, q) - members.begin();
    for (size_t m = 0; m < members.size(); ++m)
      add(packed(local[members[m]], part_of(all.parcels[members[m]].send, place), width),
          part_of(all.parcels[q].receive, m), width, results[q]);
  }
  return results;
}

const Mesh kMesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});

struct Case {
  Type type;
  Legs legs;
};

Type held(std::vector<Dim> dims, std::vector<Hold> holds) {
  return {.dims = std::move(dims), .holds = std::move(holds)};
}

std::vector<Case> cases() {
  const Hold I = Hold::I, R = Hold::R, P = Hold::P, S = Hold::S;
  const std::vector<Mark> both = stack_of({1, 0}), slow = stack_of({1}), fast = stack_of({0});
  return {
      {held({{"A", 8, both}, {"B", 3}}, {S, S}), gather_legs({1, 0}, "A")},
      {held({{"B", 3}, {"A", 8, both}, {"C", 2}}, {S, S}), gather_legs({1, 0}, "A")},
      {held({{"B", 4}, {"A", 4, slow}}, {R, S}), gather_legs({1}, "A")},
      {held({{"A", 8}, {"B", 3}}, {I, I}), slice_legs({1, 0}, "A")},
      {held({{"B", 3}, {"A", 8}, {"C", 2}}, {I, I}), slice_legs({1, 0}, "A")},
      {held({{"A", 8}, {"B", 3}}, {P, P}), transpose(gather_legs({1, 0}, "A"))},
      {held({{"B", 3}, {"A", 8}, {"C", 2}}, {P, P}), transpose(gather_legs({1, 0}, "A"))},
      {held({{"A", 8, both}, {"B", 3}}, {S, S}), transpose(slice_legs({1, 0}, "A"))},
      {held({{"B", 2}, {"A", 8, both}, {"C", 2}}, {S, S}), legs({1, 0}, {S, "A"}, {P})},
      {held({{"A", 8, both}, {"B", 4}, {"C", 3}}, {S, S}), exchange_legs({0}, "A", "B")},
      {held({{"B", 4, fast}, {"A", 8}}, {S, R}), exchange_legs({0}, "B", "A")},
      {held({{"A", 8, both}, {"B", 4}}, {S, S}), {{1, {S, "A"}, {R}}, {0, {S, "A"}, {S, "B"}}}},
      {held({{"A", 8, slow}, {"B", 4}}, {P, S}), {{1, {S, "A"}, {S, "B"}}, {0, {P}, {S, "A"}}}},
      {held({{"A", 8}}, {R, R}), legs({0}, {R}, {S, "A"})},
  };
}

Sides sides(const Mesh& mesh, const Case& c, const Type& to) {
  const std::vector<const Type*> in = {&c.type}, out = {&to};
  Sides all;
  for (int r = 0; r < mesh.ranks(); ++r) {
    all.plans.push_back(message_plan({mesh, r, c.legs, in, out}));
    all.parcels.push_back(parcels(all.plans.back(), {}).front());
  }
  return all;
}

Schedule one_move(const Case& c) {
  Builder b{kMesh};
  b.move(b.leaf(LeafKind::data, "x", c.type), c.legs);
  return b.schedule();
}

TEST(Messages, bring_what_the_oracle_moves) {
  for (const Case& c : cases()) {
    const Schedule s = one_move(c);
    const Type to = check(s).back();
    PerRank local, results;
    for (int r = 0; r < kMesh.ranks(); ++r) {
      local.emplace_back(local_shape(kMesh, c.type));
      results.emplace_back(local_shape(kMesh, to));
      for (int64_t i = 0; i < local[r].size(); ++i) local[r][i] = static_cast<double>(i + 100 * r);
    }
    EXPECT_EQ(carried(sides(kMesh, c, to), local, results), oracle::move_dense(kMesh, c.type, c.legs, local))
        << title(c.legs) << " of " << to_string(kMesh, c.type);
  }
}

// The types alone tell the bytes that leave a rank, in the mean of all ranks.
TEST(Messages, send_as_much_as_their_types_say) {
  for (const Case& c : cases()) {
    const Schedule s = one_move(c);
    const Types types = check(s);
    const WireCost cost = wire_cost(s, types, s.steps[0], Item::all(4));
    const Sides all = sides(kMesh, c, types.back());
    int64_t sent = 0;
    for (int r = 0; r < kMesh.ranks(); ++r) {
      EXPECT_EQ(all.plans[r].collective, cost.collective);
      const std::vector<int>& members = all.plans[r].members;
      for (size_t m = 0; m < members.size(); ++m)
        if (members[m] != r) sent += count(part_of(all.parcels[r].send, m));
    }
    EXPECT_EQ(static_cast<double>(sent * 4), cost.bytes * kMesh.ranks()) << title(c.legs);
  }
}

// Rows of uneven number and empty cells, by the tables of both sides.
TEST(Messages, bring_rows_by_their_tables) {
  const Hold S = Hold::S, R = Hold::R;
  const auto rows = [](std::vector<Dim> cells, std::vector<Hold> holds) {
    cells.push_back({"C", 3, {}, "r"});
    cells.push_back({"D", 2});
    return held(std::move(cells), std::move(holds));
  };
  const Type from = rows({{"E", 4}, {"g1", 2, stack_of({1})}, {"g0", 2, stack_of({0})}}, {S, S}),
             to = rows({{"E", 4, stack_of({1})}, {"g1", 2}, {"g0", 2}}, {R, S});
  const Legs legs = {{1, {S, "g1"}, {S, "E"}}, {0, {S, "g0"}, {R}}};
  const std::vector<const Type*> in = {&from}, out = {&to};
  const auto rows_of = [](int64_t cell) { return cell * 7 % 5 == 2 ? 0 : cell * 3 % 4; };
  PerRank local, before, after, results;
  Sides all;
  for (int r = 0; r < kMesh.ranks(); ++r) {
    const auto table = [&](const Type& type) {
      std::vector<int64_t> counts;
      for (int64_t cell : oracle::cells(kMesh, type.prefix(), r)) counts.push_back(rows_of(cell));
      return counts;
    };
    const std::vector<int64_t> have = table(from), need = table(to);
    before.emplace_back(std::vector{static_cast<int64_t>(have.size())}, std::vector<double>(have.begin(), have.end()));
    after.emplace_back(std::vector{static_cast<int64_t>(need.size())}, std::vector<double>(need.begin(), need.end()));
    all.plans.push_back(message_plan({kMesh, r, legs, in, out}));
    const CellCounts counts{have.data(), need.data()};
    all.parcels.push_back(parcels(all.plans.back(), {&counts, 1}).front());
    local.emplace_back(std::vector<int64_t>{all.parcels[r].before, 2});
    results.emplace_back(std::vector<int64_t>{all.parcels[r].after, 2});
    for (int64_t i = 0; i < local[r].size(); ++i) local[r][i] = static_cast<double>(1 + i + 100 * r);
  }
  std::vector<std::vector<double>> sent;
  EXPECT_EQ(carried(all, local, results), oracle::move_rows(kMesh, {from, to, legs}, local, {before, after}, sent));
}

// A value of 8 x 3 that is gathered along its first dim lies in order; along its second it needs a buffer, and so do
// two values in one message.
TEST(Messages, need_buffers_only_where_parts_do_not_lie_in_order) {
  const Type rows = held({{"A", 8, stack_of({1, 0})}, {"B", 3}}, {Hold::S, Hold::S}),
             whole = held({{"A", 8}, {"B", 3}}, {}),
             columns = held({{"B", 3}, {"A", 8, stack_of({1, 0})}}, {Hold::S, Hold::S}),
             wide = held({{"B", 3}, {"A", 8}}, {});
  const std::vector<int64_t> item = {4, 8};
  const Legs gather = gather_legs({1, 0}, "A");
  const auto bytes = [&](std::vector<const Type*> in, std::vector<const Type*> out, const Legs& legs) {
    const MessagePlan plan = message_plan({kMesh, 1, legs, in, out});
    return buffer_bytes(plan, parcels(plan, {}), item);
  };
  EXPECT_EQ(bytes({&rows}, {&whole}, gather), 0);
  EXPECT_EQ(bytes({&columns}, {&wide}, gather), 24 * 4);
  EXPECT_EQ(bytes({&whole}, {&rows}, transpose(gather)), 0);
  EXPECT_EQ(bytes({&wide}, {&columns}, transpose(gather)), 24 * 4);
  EXPECT_EQ(bytes({&rows, &columns}, {&whole, &wide}, gather), (6 + 24) * 4 + (6 + 24) * 8);
  EXPECT_EQ(bytes({&wide}, {&columns}, slice_legs({1, 0}, "A")), 0) << "what stays here travels through nothing";
}

}  // namespace
}  // namespace plait
