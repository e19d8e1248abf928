// Recomputation: the same gradients from less memory, and no message that travels twice where results are kept.
#include "passes/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "passes/lower.h"
#include "passes/testing/families.h"

namespace plait::oracle {
namespace {

// From a boundary between layers to the next.
std::vector<StepBlock> blocks_of(const Model& model) {
  const std::vector<int> made = makers(model.schedule);
  std::vector<StepBlock> blocks;
  for (size_t i = 1; i < model.boundaries.size(); ++i)
    blocks.push_back({made[model.boundaries[i - 1]] + 1, made[model.boundaries[i]] + 1});
  return blocks;
}

struct Choice {
  Recompute recompute;
  KeepMoves keep;
};
constexpr Choice kNothing{Recompute::none, KeepMoves::all}, kPlain{Recompute::full, KeepMoves::none},
    kAware{Recompute::full, KeepMoves::all}, kJoins{Recompute::full, KeepMoves::reduce_and_exchange},
    kSelective{Recompute::selective, KeepMoves::all};

Schedule checkpointed(const Model& model, const Choice& choice) {
  const Differentiated d = differentiate(model.schedule, model.loss);
  return recompute(d.schedule, {choice.recompute, choice.keep, d.num_forward, blocks_of(model)});
}

// Messages of rows and tokens, with their cotangents.
struct Calls {
  int all_to_all = 0, all_reduce = 0, all_gather = 0, reduce_scatter = 0;
  bool operator==(const Calls&) const = default;
};
void PrintTo(const Calls& c, std::ostream* os) {
  *os << c.all_to_all << "/" << c.all_reduce << "/" << c.all_gather << "/" << c.reduce_scatter;
}

// From the first block on, without parameters and their gradients.
Calls calls(const Model& model, const Choice& choice) {
  const Schedule s = checkpointed(model, choice);
  const Types types = check(s);
  const auto of_parameter = [&](const Step& step) {
    const auto cotangent = s.cotangent_of.find(step.out[0]);
    return s.leaf(step.in[0]) || (cotangent != s.cotangent_of.end() && s.leaf(cotangent->second));
  };
  const auto carried = [&](const Step& step, Collective c) {
    const Move* move = as<Move>(step.op);
    return move && collective(move->legs) == c && types[step.in[0]].has("D") && !of_parameter(step);
  };
  Calls n;
  for (size_t i = static_cast<size_t>(blocks_of(model).front().first); i < s.steps.size(); ++i) {
    n.all_to_all += carried(s.steps[i], Collective::all_to_all);
    n.all_reduce += carried(s.steps[i], Collective::all_reduce);
    n.all_gather += carried(s.steps[i], Collective::all_gather);
    n.reduce_scatter += carried(s.steps[i], Collective::reduce_scatter);
  }
  return n;
}

constexpr MeshSize kMesh{.ranks = 8, .tp = 2, .esp = 2, .ep = 2};

TEST(Recomputation, runs_as_many_messages_as_each_family_needs) {
  struct Row {
    Family family;
    Calls plain, aware;
  };
  for (const Row& row :
       {Row{Family::ted, {6, 3, 0, 0}, {4, 2, 0, 0}}, Row{Family::dtd, {6, 3, 6, 0}, {4, 2, 4, 0}},
        Row{Family::s1, {6, 0, 2, 0}, {4, 0, 2, 0}}, Row{Family::s2, {6, 0, 3, 0}, {4, 0, 2, 0}},
        Row{Family::sharded, {6, 0, 4, 3}, {4, 0, 3, 2}}, Row{Family::parm, {6, 3, 3, 0}, {4, 2, 2, 0}}}) {
    SCOPED_TRACE(name(row.family));
    const Model model = build({.family = row.family, .mesh = kMesh});
    EXPECT_EQ(calls(model, kPlain), row.plain);
    EXPECT_EQ(calls(model, kAware), row.aware);
    EXPECT_EQ(calls(model, kSelective), row.aware);
  }
}

TEST(Recomputation, joins_again_where_only_the_small_side_is_kept) {
  EXPECT_EQ(calls(build({.family = Family::dtd, .mesh = kMesh}), kJoins), (Calls{4, 2, 6, 0}));
}

TEST(Recomputation, gives_the_same_bits) {
  for (const MeshSize& mesh : kLayouts)
    for (Family family : kFamilies)
      for (int64_t capacity : {0, 8}) {
        if (!fits(family, mesh)) continue;
        SCOPED_TRACE(fmt::format("{} {} capacity {}", name(family), describe(mesh), capacity));
        const Model model = build({.family = family,
                                   .mesh = mesh,
                                   .width = 16,
                                   .layers = 2,
                                   .residual = Residual::yes,
                                   .weights = capacity ? Weights::sharded : Weights::whole,
                                   .capacity = capacity});
        const Differentiated d = differentiate(model.schedule, model.loss);
        const Data data{.skew = 1, .mask = {1, 0, 1, 1, 1}};
        const auto gradients = [&](const Choice& choice) {
          const Schedule s = lower(checkpointed(model, choice));
          return interpret(s, feed(s, data)).values;
        };
        const auto kept = gradients(kNothing);
        for (const Choice& choice : {kPlain, kAware, kJoins, kSelective}) {
          const auto again = gradients(choice);
          for (const auto& [leaf, gradient] : d.gradients)
            for (int r = 0; r < mesh.ranks; ++r) EXPECT_EQ(again[gradient][r].data, kept[gradient][r].data);
        }
      }
}

int count(const Schedule& s, std::string_view op) {
  return static_cast<int>(std::ranges::count_if(s.steps, [&](const Step& step) { return name(step.op) == op; }));
}

TEST(Recomputation, never_routes_again) {
  const Model model = build({.family = Family::dtd, .mesh = kMesh, .layers = 2});
  for (const Choice& choice : {kPlain, kAware, kSelective})
    for (const char* op : {"route", "count"}) EXPECT_EQ(count(checkpointed(model, choice), op), 2);
}

TEST(Recomputation, makes_products_again_unless_it_is_selective) {
  const Model model = build({.family = Family::s1, .mesh = kMesh});
  const int once = count(checkpointed(model, kNothing), "einsum");
  EXPECT_EQ(count(checkpointed(model, kSelective), "einsum"), once);
  EXPECT_EQ(count(checkpointed(model, kPlain), "einsum"), once + 3) << "logits, up and down";
  EXPECT_EQ(count(checkpointed(model, kAware), "einsum"), once + 2) << "the result of down travelled, and is kept";
  EXPECT_EQ(count(checkpointed(model, kSelective), "activate"), 2);
}

TEST(Recomputation, gathers_sharded_weights_again_even_where_messages_are_kept) {
  const Model model = build({.family = Family::s1, .mesh = kMesh, .width = 8, .weights = Weights::sharded});
  const auto gathers = [&](const Choice& choice) {
    const Schedule s = checkpointed(model, choice);
    return std::ranges::count_if(s.steps, [&](const Step& step) {
      return as<Move>(step.op) && s.leaf(step.in[0]) && s.leaf(step.in[0])->kind == LeafKind::parameter &&
             collective(std::get<Move>(step.op).legs) == Collective::all_gather;
    });
  };
  for (const Choice& choice : {kNothing, kAware, kPlain}) EXPECT_EQ(gathers(choice), 5) << "W0, and W1 and W2 twice";
}

// What backward still reads of a block's forward pass.
TEST(Recomputation, leaves_backward_only_what_is_kept) {
  const Model model = build({.family = Family::ted, .mesh = kMesh});
  const Schedule s = checkpointed(model, kPlain);
  const std::vector<int> made = makers(s);
  const StepBlock block = blocks_of(model).front();
  std::set<std::string_view> kept;
  for (size_t i = static_cast<size_t>(block.last); i < s.steps.size(); ++i)
    for (ValueId v : s.steps[i].in)
      if (made[v] >= block.first && made[v] < block.last - 1) kept.insert(name(s.steps[made[v]].op));
  EXPECT_EQ(kept, (std::set<std::string_view>{"route", "count"}));
}

}  // namespace
}  // namespace plait::oracle
