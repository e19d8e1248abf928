// Bytes and rows on the wire: the closed forms of each family, and what the oracle really sends.
#include <gtest/gtest.h>

#include <map>

#include "passes/testing/families.h"
#include "schedule/testing/rows_sent.h"
#include "schedule/wire_bytes.h"

namespace plait::oracle {
namespace {

using Bytes = std::map<Collective, double>;
constexpr int kItem = 8;

// Bytes that one rank sends in the layers of a toy, before the loss.
Bytes layer_bytes(const Model& model, auto&& price) {
  const Types types = check(model.schedule);
  const std::vector<int> made = makers(model.schedule);
  Bytes bytes;
  for (int i = made[model.boundaries[0]] + 1; i < static_cast<int>(model.schedule.steps.size()); ++i) {
    const Step& step = model.schedule.steps[i];
    const WireCost cost = price(types, step);
    if (cost.collective != Collective::none && !types[step.out[0]].dims.empty()) bytes[cost.collective] += cost.bytes;
  }
  return bytes;
}

double part(double n) { return (n - 1) / n; }

// m: bytes of all routed rows of a tp group, x: of its tokens.
Bytes closed_form(Family family, const MeshSize& mesh, double m, double x) {
  const double tp = mesh.tp, esp = mesh.esp, ep = mesh.ep;
  using enum Collective;
  switch (family) {
    case Family::ted: return {{all_to_all, 2 * m * part(ep)}, {all_reduce, 2 * m * part(esp)}};
    case Family::dtd:
      return {{all_to_all, 2 * m / tp * part(ep)}, {all_reduce, 2 * m * part(esp)}, {all_gather, 2 * m * part(tp)}};
    case Family::s1: return {{all_to_all, 2 * m * esp / tp * part(ep * esp)}, {all_gather, x * part(tp)}};
    case Family::s2: return {{all_to_all, 2 * m * esp / tp * part(ep * esp)}, {all_gather, m * part(tp)}};
    case Family::sharded:
      return {
          {all_to_all, 2 * m / tp * part(ep)}, {all_gather, m / tp * (esp - 1)}, {reduce_scatter, m / tp * (esp - 1)}};
    case Family::parm:
      return {{all_gather, x * (esp - 1)}, {all_to_all, 2 * m * esp * part(ep)}, {all_reduce, 2 * m * (esp - 1)}};
  }
  return {};
}

void expect_bytes(const Toy& toy, Bytes got, Bytes want) {
  for (Collective c :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all})
    EXPECT_NEAR(got[c], want[c], 1e-6) << name(toy.family) << " " << name(c) << " at ranks " << toy.mesh.ranks << " tp "
                                       << toy.mesh.tp << " esp " << toy.mesh.esp;
}

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

TEST(Wire, of_padded_buffers_costs_the_closed_forms) {
  everywhere({}, [](Toy toy) {
    toy.capacity = gate_group(toy);
    const Model model = build(toy);
    const double x = static_cast<double>(toy.tokens * toy.width) * kItem, m = static_cast<double>(toy.experts) * x;
    const Bytes got = layer_bytes(model, [&](const Types& types, const Step& step) {
      return wire_cost(model.schedule, types, step, Item::all(kItem));
    });
    expect_bytes(toy, got, closed_form(toy.family, toy.mesh, m, x));
  });
}

RaggedMove ragged(const Types& types, const Step& step) {
  return {types[step.in[0]].prefix(), types[step.out[0]].prefix(), std::get<Move>(step.op).legs};
}

int64_t num_cells(const std::vector<Dim>& prefix) {
  int64_t n = 1;
  for (const Dim& dim : prefix) n *= dim.size;
  return n;
}

// Rows of a balanced load, counted rank by rank; the ranks send alike.
WireCost balanced_cost(const Model& model, const Types& types, const Step& step, double rows) {
  WireCost cost = wire_cost(model.schedule, types, step, Item::all(kItem));
  if (cost.collective == Collective::none || types[step.in[0]].jagged_index() < 0) return cost;
  const RaggedMove move = ragged(types, step);
  const auto cells = static_cast<double>(num_cells(move.from));
  const auto sent = rows_sent(model.schedule.mesh, move, std::vector<double>(static_cast<size_t>(cells), rows / cells));
  for (const auto& row : sent) {
    double total = 0;
    for (double n : row) total += n;
    cost.bytes = total * static_cast<double>(local_size(model.schedule.mesh, types[step.in[0]].dims.back())) * kItem;
    EXPECT_NEAR(
        total,
        [&] {
          double first = 0;
          for (double n : sent[0]) first += n;
          return first;
        }(),
        1e-9);
  }
  return cost;
}

TEST(Wire, of_balanced_dropless_rows_costs_the_closed_forms) {
  everywhere({}, [](Toy toy) {
    const Model model = build(toy);
    const double x = static_cast<double>(toy.tokens * toy.width) * kItem, m = static_cast<double>(toy.top_k) * x;
    const double copies = toy.family == Family::parm ? toy.mesh.tp : 1;
    const double rows = copies * static_cast<double>(toy.tokens * toy.top_k * model.schedule.mesh.extent(Axis::dp));
    const Bytes got = layer_bytes(
        model, [&](const Types& types, const Step& step) { return balanced_cost(model, types, step, rows); });
    expect_bytes(toy, got, closed_form(toy.family, toy.mesh, m, x));
  });
}

TEST(Wire, costs_nothing_in_a_group_of_one) {
  const Model model = build({.mesh = {}});
  const Types types = check(model.schedule);
  for (const Step& step : model.schedule.steps)
    EXPECT_EQ(wire_cost(model.schedule, types, step, Item::all(kItem)).collective, Collective::none);
}

TEST(Wire, of_several_values_in_one_message_is_their_sum) {
  Builder b{Mesh({.ranks = 4, .tp = 4, .esp = 4, .ep = 1})};
  const Atoms tp = b.mesh().axis(Axis::tp);
  const ValueId x = b.leaf(LeafKind::parameter, "x", {{"T", 8, stack_of(tp)}}),
                y = b.leaf(LeafKind::parameter, "y", {{"T", 8, stack_of(tp)}, {"D", 3}});
  b.move_all({x, y}, gather_legs(tp, "T"));
  const WireCost cost = wire_cost(b.schedule(), check(b.schedule()), b.schedule().steps[0], Item::all(4));
  EXPECT_EQ(cost.collective, Collective::all_gather);
  EXPECT_EQ(cost.ranks, 4);
  EXPECT_DOUBLE_EQ(cost.bytes, (8 + 24) * 4 * 3.0 / 4);
}

// The part of a recorded table that counts the cells of a type: all of it, or one chunk's.
std::vector<double> table_of(const Array& table, const Type& rows) {
  const Dim& first = rows.dims.front();
  if (first.stack.empty() || first.stack.back().is_atom()) return table.data;
  return chunk(table, 0, first.stack.back().parts, first.stack.back().part).data;
}

void expect_rows_as_recorded(Toy all, int at_least) {
  int moves = 0;
  everywhere(all, [&](const Toy& toy) {
    const Outcome o = perform(build(toy), {.skew = 1, .mask = {1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0}});
    const Schedule& s = o.lowered;
    const std::vector<int> made = makers(s);
    for (const auto& [value, sent] : o.trace.rows) {
      const Step& step = s.steps[made[value]];
      const Type& from = o.trace.types[step.in[0]];
      const Array table = recorded_table(s, o.trace, from.dims[from.jagged_index()].table);
      EXPECT_EQ(sent, rows_sent(s.mesh, ragged(o.trace.types, step), table_of(table, from)))
          << name(toy.family) << " %" << s.names[value];
      ++moves;
    }
  });
  EXPECT_GT(moves, at_least);
}

TEST(Wire, carries_the_rows_that_the_recorded_table_predicts) { expect_rows_as_recorded({.layers = 2}, 300); }
TEST(Wire, carries_the_rows_of_chunks_that_the_recorded_table_predicts) { expect_rows_as_recorded({.chunks = 3}, 500); }

TEST(Wire, counts_travel_once_a_layer_forward_and_never_backward) {
  everywhere({.layers = 3}, [](const Toy& toy) {
    const Outcome o = perform(build(toy), {});
    const Schedule& s = o.lowered;
    int messages = 0;
    bool backward = false;
    for (const Step& step : s.steps) {
      for (ValueId v : step.in) backward |= s.names[v] == "seed";
      const Move* move = as<Move>(step.op);
      if (!move || o.trace.types[step.in[0]].role != Role::table || collective(move->legs) == Collective::none)
        continue;
      EXPECT_FALSE(backward) << name(toy.family);
      ++messages;
    }
    EXPECT_EQ(messages, toy.layers) << name(toy.family) << " at ranks " << toy.mesh.ranks << " tp " << toy.mesh.tp
                                    << " esp " << toy.mesh.esp;
  });
}

}  // namespace
}  // namespace plait::oracle
