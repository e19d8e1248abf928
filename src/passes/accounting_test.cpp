// Calls and bytes of a whole training step, forward and backward: what types say is what the oracle moves.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "passes/rewrite.h"
#include "passes/testing/families.h"
#include "schedule/testing/rows_sent.h"
#include "schedule/testing/transfer.h"
#include "schedule/wire_bytes.h"

namespace plait::oracle {
namespace {

struct Traffic {
  int calls = 0;
  double bytes = 0;  // that all ranks send together
  bool operator==(const Traffic&) const = default;
};
using Record = std::map<Collective, Traffic>;
constexpr int kItem = 8;

double total(const std::vector<std::vector<double>>& sent) {
  double sum = 0;
  for (const auto& row : sent)
    for (double n : row) sum += n;
  return sum;
}

// A ring's all_reduce is a reduce_scatter and an all_gather: of each element that meets n - 1 others, 2/n travel.
double ring(const Move& move, const Mesh& mesh) {
  return collective(move.legs) == Collective::all_reduce ? 2.0 / mesh.count(wire_atoms(move.legs)) : 1.0;
}

bool of_rows(const Execution& run, ValueId v) { return run.types[v].jagged_index() >= 0; }

double width(const Mesh& mesh, const Type& rows) {
  double n = 1;
  for (size_t d = rows.jagged_index() + 1; d < rows.dims.size(); ++d)
    n *= static_cast<double>(local_size(mesh, rows.dims[d]));
  return n;
}

// Rows by the recorded tables; of a chunk, its part of the table.
double rows_by_type(const Schedule& s, const Execution& run, const Step& step, size_t value) {
  const Type& from = run.types[step.in[value]];
  Array table = recorded_table(s, run, from.dims[from.jagged_index()].table);
  const std::vector<Mark>& marks = from.dims.front().stack;
  if (!marks.empty() && !marks.back().is_atom() && table.shape.front() > 1)  // within nodes, chunks are counted apart
    table = chunk(table, 0, marks.back().parts, marks.back().part);
  const RaggedMove move{from.prefix(), run.types[step.out[value]].prefix(), std::get<Move>(step.op).legs};
  return total(rows_sent(s.mesh, move, table.data)) * width(s.mesh, from);
}

Record by_type(const Schedule& s, const Execution& run) {
  Record record;
  for (const Step& step : s.steps) {
    const WireCost cost = wire_cost(s, run.types, step, Item::all(kItem));
    if (cost.collective == Collective::none) continue;
    ++record[cost.collective].calls;
    if (!of_rows(run, step.in[0])) record[cost.collective].bytes += cost.bytes * s.mesh.ranks();
    for (size_t i = 0; of_rows(run, step.in[0]) && i < step.out.size(); ++i)
      record[cost.collective].bytes += rows_by_type(s, run, step, i) * kItem;
  }
  return record;
}

double elements_moved(const Schedule& s, const Execution& run, const Step& step, size_t value) {
  const Legs& legs = std::get<Move>(step.op).legs;
  const PerRank& x = run.values[step.in[value]];
  if (const auto rows = run.rows.find(step.out[value]); rows != run.rows.end())
    return total(rows->second) * static_cast<double>(x[0].stride(0));
  if (!of_rows(run, step.in[value])) return total(elements_sent(s.mesh, run.types[step.in[value]], legs, x));
  double elements = 0;  // all rows of each rank meet those of its group
  for (const Array& rows : x) elements += static_cast<double>(rows.size()) * (s.mesh.count(wire_atoms(legs)) - 1);
  return elements;
}

// What travelled from rank to rank, whatever the list calls it.
Record by_oracle(const Schedule& s, const Execution& run) {
  Record record;
  for (const Step& step : s.steps) {
    const Move* move = as<Move>(step.op);
    if (!move) continue;
    double elements = 0;
    for (size_t i = 0; i < step.out.size(); ++i) elements += elements_moved(s, run, step, i);
    if (collective(move->legs) == Collective::none) {
      EXPECT_TRUE(of_rows(run, step.in[0]) || elements == 0 || !wire_legs(move->legs).empty()) << s.title(step);
      continue;
    }
    ++record[collective(move->legs)].calls;
    record[collective(move->legs)].bytes += elements * kItem * ring(*move, s.mesh);
  }
  return record;
}

void expect_accounted(Toy toy, const std::function<Schedule(const Schedule&)>& rewrite) {
  const bool nodes = toy.across == Across::node;
  for (const MeshSize& mesh : nodes ? kNodeLayouts : kLayouts)
    for (Family family : nodes ? std::vector<Family>(std::begin(kNodeFamilies), std::end(kNodeFamilies))
                               : std::vector<Family>(std::begin(kFamilies), std::end(kFamilies))) {
      if (!fits(family, mesh)) continue;
      toy.family = family;
      toy.mesh = mesh;
      Model model = build(toy);
      model.schedule = rewrite(model.schedule);
      const Outcome o = perform(model, {.skew = 1, .mask = {1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1}});
      const Record types = by_type(o.lowered, o.trace), moved = by_oracle(o.lowered, o.trace);
      for (Collective c :
           {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(family), name(c), describe(mesh)));
        ASSERT_EQ(types.count(c), moved.count(c));
        if (!types.count(c)) continue;
        EXPECT_EQ(types.at(c).calls, moved.at(c).calls);
        EXPECT_NEAR(types.at(c).bytes, moved.at(c).bytes, 1e-6);
      }
    }
}

Schedule as_built(const Schedule& s) { return s; }

TEST(Accounting, of_ragged_rows_is_what_moves) { expect_accounted({}, as_built); }
TEST(Accounting, of_chunks_of_rows_is_what_moves) { expect_accounted({.chunks = 2}, as_built); }
TEST(Accounting, of_chunks_in_common_messages_is_what_moves) {
  expect_accounted({.chunks = 4}, [](const Schedule& s) {
    return join_chunks(s, {0, static_cast<int>(s.steps.size()), 2});
  });
}
TEST(Accounting, of_rows_padded_to_the_busiest_cell_is_what_moves) {
  expect_accounted({.chunks = 2, .cells = Cells::padded}, as_built);
}
TEST(Accounting, of_tokens_that_cross_once_to_a_node_is_what_moves) {
  expect_accounted({.top_k = 3, .across = Across::node}, as_built);
  expect_accounted({.chunks = 2, .across = Across::node}, as_built);
}
TEST(Accounting, of_padded_slots_is_what_moves) { expect_accounted({.capacity = 8}, as_built); }
TEST(Accounting, of_weights_in_slices_is_what_moves) {
  expect_accounted({.width = 8, .weights = Weights::sharded, .capacity = 8}, as_built);
}
TEST(Accounting, of_merged_moves_is_what_moves) { expect_accounted({.capacity = 8}, merge_moves); }
TEST(Accounting, of_exchanges_atom_by_atom_is_what_moves) {
  expect_accounted({}, [](const Schedule& s) { return one_atom_at_a_time(unfuse_moves(s)); });
}

}  // namespace
}  // namespace plait::oracle
