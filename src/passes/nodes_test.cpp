// Tokens that cross once to each node that has experts of them, and rows padded to the busiest cell: the same numbers.
#include <gtest/gtest.h>

#include <set>

#include "passes/rewrite.h"
#include "passes/testing/edits.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

const Data kUneven{.skew = 1, .mask = {1, 1, 0, 1, 1, 0, 1}};

void at_every_node_layout(auto&& f) {
  for (const MeshSize& mesh : kNodeLayouts)
    for (Family family : kNodeFamilies) {
      if (!fits(family, mesh)) continue;
      SCOPED_TRACE(fmt::format("{} {}", name(family), describe(mesh)));
      f(Toy{.family = family, .mesh = mesh, .experts = 8, .across = Across::node});
    }
}

TEST(ByNode, computes_what_one_rank_computes) {
  at_every_node_layout([](Toy toy) {
    for (int64_t k : {1, 2, 4})
      for (int chunks : {1, 2}) {
        toy.top_k = k;
        toy.chunks = chunks;
        toy.layers = 2;
        toy.residual = Residual::yes;
        const Numbers one = perform(build(on_one_rank(toy)), kUneven).numbers;
        EXPECT_LT(max_difference(perform(build(toy), kUneven).numbers, one), 1e-10) << k << " " << chunks;
      }
  });
}

// The node of a rank's experts.
int node_of(const Mesh& mesh, int rank) {
  int node = 0;
  for (Atom a : mesh.axis(Axis::ep))
    if (mesh.crosses_nodes(a)) node = node * mesh.size(a) + mesh.digit(rank, a);
  return node;
}

// Rows of tokens that leave the sender's node for experts, forward.
double rows_between_nodes(const Schedule& s, const Execution& run) {
  double sum = 0;
  for (const auto& [v, sent] : run.rows) {
    const Step& step = s.steps[makers(s)[v]];
    if (!run.types[v].has("D") || s.cotangent_of.count(v) || run.types[v].find("E")->stack.empty()) continue;
    for (int r = 0; r < s.mesh.ranks(); ++r)
      for (int q = 0; q < s.mesh.ranks(); ++q)
        if (as<Move>(step.op) && node_of(s.mesh, r) != node_of(s.mesh, q)) sum += sent[r][q];
  }
  return sum;
}

// By the routes of all ranks: pairs of a token and another node, and routes to other nodes.
struct Crossings {
  double pairs = 0, routes = 0;
};
Crossings crossings(const Schedule& s, const Execution& run, const Toy& toy) {
  Crossings all;
  const Step& route = s.steps[find_step(s, "route")];
  const int nodes = toy.mesh.esp * toy.mesh.ep / toy.mesh.node;
  for (int r = 0; r < s.mesh.ranks(); ++r) {
    const Array &idx = run.values[route.out[1]][r], &slot = run.values[route.out[2]][r];
    std::set<std::pair<int64_t, int>> pairs;
    for (int64_t i = 0; i < idx.size(); ++i) {
      const int node = static_cast<int>(idx[i]) * nodes / static_cast<int>(toy.experts);
      if (slot[i] < 0 || node == node_of(s.mesh, r)) continue;
      pairs.insert({i / toy.top_k, node});
      ++all.routes;
    }
    all.pairs += static_cast<double>(pairs.size());
  }
  return all;
}

TEST(ByNode, sends_each_token_once_to_each_node_instead_of_once_for_each_route) {
  at_every_node_layout([](Toy toy) {
    toy.top_k = 4;
    const Outcome once = perform(build(toy), kUneven);
    toy.across = Across::direct;
    const Outcome direct = perform(build(toy), kUneven);
    const Crossings want = crossings(once.lowered, once.trace, toy);
    EXPECT_EQ(rows_between_nodes(once.lowered, once.trace), want.pairs);
    EXPECT_LT(want.pairs, want.routes);
    const bool fused = toy.family == Family::s1;  // each row goes to all ranks that share its expert
    EXPECT_EQ(rows_between_nodes(direct.lowered, direct.trace), want.routes * (fused ? toy.mesh.esp : 1));
  });
}

TEST(ByNode, counts_within_a_node_what_a_direct_exchange_brings) {
  at_every_node_layout([](Toy toy) {
    const Outcome once = perform(build(toy), kUneven);
    toy.across = Across::direct;
    const Outcome direct = perform(build(toy), kUneven);
    EXPECT_EQ(recorded_table(once.lowered, once.trace, "rows_0.in1"),
              recorded_table(direct.lowered, direct.trace, "rows_0"));
  });
}

TEST(ByNode, sends_tokens_weights_and_experts_in_one_message) {
  const Model model = build({.family = Family::s1, .mesh = {8, 2, 2, 4, 4}, .across = Across::node});
  const Differentiated d = differentiate(model.schedule, model.loss);
  const Types types = check(d.schedule);
  std::vector<size_t> values;
  for (const Step& step : d.schedule.steps)
    if (d.schedule.title(step) == "exchange") values.push_back(step.in.size());
  EXPECT_EQ(values, (std::vector<size_t>{3, 1, 1, 2}));  // out, back; back, out with the weights' gradient
}

TEST(ByNode, refuses_rows_and_places_that_are_not_of_the_same_node) {
  const Model model = build({.family = Family::s1, .mesh = {8, 2, 2, 4, 4}, .across = Across::node});
  const auto answer = [&](auto&& edit) -> std::string {
    Schedule s = model.schedule;
    edit(s);
    try {
      check(s);
      return "accepted";
    } catch (const TypeFault& e) {
      return e.what();
    }
  };
  const std::string stayed = answer([](Schedule& s) {  // tokens as they were before they crossed
    s.steps[find_step(s, "encode", 3)].in[0] = s.steps[find_step(s, "encode", 0)].out[0];
  });
  EXPECT_NE(stayed.find("the places are of rows"), std::string::npos) << stayed;
  const std::string unweighted =
      answer([](Schedule& s) { s.steps[find_step(s, "decode", 0)].in[1] = s.steps[find_step(s, "encode", 1)].out[0]; });
  EXPECT_NE(unweighted.find("weights are"), std::string::npos) << unweighted;
  const std::string early = answer([](Schedule& s) {  // home before they crossed back
    s.steps[find_step(s, "decode", 1)].in[0] = s.steps[find_step(s, "decode", 0)].out[0];
  });
  EXPECT_NE(early.find("decode needs the rows back as"), std::string::npos) << early;
}

TEST(PaddedRows, compute_what_one_rank_computes_and_fill_every_cell_alike) {
  for (const MeshSize& mesh : kLayouts)
    for (Family family : kFamilies)
      for (int chunks : {1, 2}) {
        if (!fits(family, mesh)) continue;
        SCOPED_TRACE(fmt::format("{} {}", name(family), describe(mesh)));
        Toy toy{.family = family, .mesh = mesh, .chunks = chunks, .cells = Cells::padded};
        const Outcome padded = perform(build(toy), kUneven);
        EXPECT_LT(max_difference(padded.numbers, perform(build(on_one_rank(toy)), kUneven).numbers), 1e-10);
        toy.cells = Cells::counted;
        const Outcome counted = perform(build(toy), kUneven);
        const Array even = recorded_table(padded.lowered, padded.trace, "rows_0"),
                    uneven = recorded_table(counted.lowered, counted.trace, "rows_0");
        const auto greatest = [](const Array& x) { return *std::max_element(x.data.begin(), x.data.end()); };
        EXPECT_EQ(greatest(even), greatest(uneven));
        const bool one_group = mesh.ranks == mesh.esp * mesh.ep;  // else each group agrees on its own
        if (one_group && mesh.esp <= mesh.tp && family != Family::s1 && family != Family::sharded)
          EXPECT_EQ(std::set<double>(even.data.begin(), even.data.end()).size(), 1u);
      }
}

}  // namespace
}  // namespace plait::oracle
