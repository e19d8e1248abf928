#include "model/step.h"

#include <gmock/gmock.h>

#include <map>

#include "passes/rewrite.h"
#include "schedule/text.h"

namespace plait {
namespace {

ModelSizes tiny(const FamilySpec* family) {
  ModelSizes s{
      .sequences = 8, .positions = 8, .vocab = 32, .width = 16, .layers = 2, .heads = 4, .kv_heads = 4, .ffn = 32};
  s.family = family;
  s.moe_every = 1;
  s.experts = 4;
  s.top_k = 2;
  s.expert_ffn = 32;
  s.aux_coef = 0.01;
  return s;
}

ModelSizes with_capacity(ModelSizes s) {
  s.group = 4;
  s.capacity = 4;
  s.drop = Drop::probs;
  return s;
}

struct Layout {
  int tp, ep, edp;
};

TEST(TrainingStep, types_at_every_layout_family_and_routing) {
  for (Layout l : {Layout{1, 1, 1},
                   {2, 1, 1},
                   {1, 2, 1},
                   {1, 1, 2},
                   {2, 2, 1},
                   {2, 1, 2},
                   {1, 2, 2},
                   {2, 2, 2},
                   {4, 2, 1},
                   {2, 4, 1}}) {
    for (const FamilySpec* family :
         {&families::ted, &families::dtd, &families::parm, &families::s1, &families::s2, &families::sharded}) {
      for (const ModelSizes& sizes : {tiny(family), with_capacity(tiny(family))}) {
        for (int micro : {1, 2}) {
          ModelSizes saving = sizes;
          saving.zero = micro == 1 ? Zero::states : Zero::parameters;
          saving.recompute = micro == 1 ? Recompute::selective : Recompute::full;
          const Mesh mesh({.ranks = l.tp * l.ep * l.edp, .tp = l.tp, .esp = l.tp, .ep = l.ep});
          ASSERT_NO_THROW(build_step(mesh, sizes, {}, {micro}))
              << l.tp << l.ep << l.edp << family->name << sizes.capacity;
          ASSERT_NO_THROW(build_step(mesh, saving, {}, {micro}))
              << l.tp << l.ep << l.edp << family->name << sizes.capacity;
        }
      }
    }
  }
}

TEST(TrainingStep, synchronises_each_kind_of_gradient_in_one_message) {
  const TrainingStep step = build_step(Mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 2}), tiny(&families::ted), {});
  const Schedule& s = step.schedule;
  int messages = 0;
  size_t gradients = 0;
  for (const Step& st : s.steps) {
    const auto is_gradient = [&](ValueId v) {
      return std::any_of(step.gradients.begin(), step.gradients.end(), [&](const auto& g) { return g.second == v; });
    };
    if (!as<Move>(st.op) || !is_gradient(st.out[0])) continue;
    ++messages;
    gradients += st.out.size();
  }
  EXPECT_EQ(messages, 2);  // over dp and over edp
  EXPECT_EQ(gradients, step.parameters.size());
}

// Messages of rows: forward ones come before the first cotangent.
struct RowMessages {
  int forward = 0, backward = 0;
  bool operator==(const RowMessages&) const = default;
};

RowMessages row_messages(const Schedule& s) {
  const Types types = check(s);
  RowMessages n;
  bool back = false;
  for (const Step& step : s.steps) {
    back = back || s.cotangent_of.count(step.out[0]);
    const Type& x = types[step.in[0]];
    if (as<Move>(step.op) && x.jagged_index() >= 0) ++(back ? n.backward : n.forward);
  }
  return n;
}

TEST(TrainingStep, sends_rows_in_so_many_messages_forward_and_so_many_backward) {
  const Mesh mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
  for (int forward : {1, 2, 4})
    for (int backward : {1, 2, 4}) {
      ModelSizes sizes = tiny(&families::sharded);
      sizes.chunks = forward;
      sizes.chunks_backward = backward;
      const int each = 4 * static_cast<int>(sizes.layers);  // exchange, gather; scatter, exchange
      EXPECT_EQ(row_messages(build_step(mesh, sizes, {}, {2}).schedule),
                (RowMessages{each * forward, each * backward}));
    }
}

TEST(TrainingStep, enters_and_synchronises_weights_outside_the_chunks) {
  for (const FamilySpec* family : {&families::ted, &families::dtd, &families::s1, &families::sharded})
    for (int backward : {1, 4}) {
      ModelSizes sizes = tiny(family);
      sizes.chunks = 2;
      sizes.chunks_backward = backward;
      const TrainingStep step = build_step(Mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 2}), sizes, {}, {2});
      std::map<ValueId, int> entered;
      for (const Step& s : step.schedule.steps)
        for (ValueId v : s.in)
          if (const Leaf* leaf = step.schedule.leaf(v); as<Move>(s.op) && leaf && leaf->kind == LeafKind::parameter)
            ++entered[v];
      for (const auto& [v, times] : entered) EXPECT_EQ(times, 1) << step.schedule.names[v];
      const Repeat section = step.schedule.repeat.value();
      for (int i = section.first; i < section.last; ++i)
        for (ValueId v : step.schedule.steps[i].out)
          for (const auto& [name, gradient] : step.gradients) EXPECT_NE(v, gradient) << name;
    }
}

int moves_of_parameters(const TrainingStep& step, Collective kind) {
  const Schedule& s = step.schedule;
  return static_cast<int>(std::ranges::count_if(s.steps, [&](const Step& st) {
    const auto of = s.cotangent_of.find(st.out[0]);
    const Leaf *from = s.leaf(st.in[0]), *to = of == s.cotangent_of.end() ? nullptr : s.leaf(of->second);
    const bool parameter = (from && from->kind == LeafKind::parameter) || (to && to->kind == LeafKind::parameter);
    return as<Move>(st.op) && parameter && collective(std::get<Move>(st.op).legs) == kind;
  }));
}

TEST(TrainingStep, gathers_shares_once_a_step_or_in_each_pass_of_each_layer) {
  const Mesh mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 2});
  for (int micro : {1, 2}) {
    ModelSizes sizes = tiny(&families::ted);
    sizes.zero = Zero::states;
    const TrainingStep once = build_step(mesh, sizes, {}, {micro});
    EXPECT_EQ(moves_of_parameters(once, Collective::all_gather), 2) << "over dp and over edp";
    EXPECT_EQ(moves_of_parameters(once, Collective::reduce_scatter), 2);
    EXPECT_EQ(moves_of_parameters(once, Collective::all_reduce), 0);
    sizes.zero = Zero::parameters;
    const TrainingStep always = build_step(mesh, sizes, {}, {micro});
    EXPECT_EQ(moves_of_parameters(always, Collective::all_gather), 2 + 2 * (2 + 2))
        << "embedding and head, and two messages in each pass of both layers";
    EXPECT_EQ(moves_of_parameters(always, Collective::reduce_scatter), 2 + 2 * 2);
  }
}

TEST(TrainingStep, types_however_rows_cross_between_nodes) {
  for (MeshSize mesh : {MeshSize{8, 2, 2, 4, 4}, {4, 1, 1, 4, 2}, {8, 2, 4, 2, 4}, {16, 4, 2, 4, 4}})
    for (const FamilySpec* family : {&families::ted, &families::s1, &families::s2, &families::sharded})
      for (Dispatch dispatch : {Dispatch::levels, Dispatch::node}) {
        if (family == &families::ted && mesh.tp != mesh.esp) continue;
        ModelSizes sizes = tiny(family);
        sizes.dispatch = dispatch;
        sizes.slice_rows = dispatch == Dispatch::levels;
        sizes.chunks = 2;
        sizes.chunks_backward = 4;
        const TrainingStep step = build_step(Mesh(mesh), sizes, {}, {2});
        const std::string text = print(step.schedule);
        EXPECT_EQ(print(parse_schedule(text)), text);
      }
}

TEST(Model, by_levels_is_the_direct_one_an_atom_at_a_time) {
  for (const FamilySpec* family : {&families::ted, &families::s1, &families::sharded}) {
    ModelSizes sizes = tiny(family);
    const Mesh mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 4, .node = 4});
    const Model direct = build_model(mesh, sizes);
    sizes.dispatch = Dispatch::levels;
    const Model levels = build_model(mesh, sizes);
    EXPECT_NE(fingerprint(levels.schedule, levels.nll), fingerprint(direct.schedule, direct.nll));
    EXPECT_EQ(fingerprint(levels.schedule, levels.nll), fingerprint(one_atom_at_a_time(direct.schedule), direct.nll));
  }
}

TEST(Model, of_s2_that_slices_tokens_joins_tokens_instead_of_rows) {
  ModelSizes sizes = tiny(&families::s2);
  const auto joins = [&] {
    const Schedule s = build_model(Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}), sizes).schedule;
    const Types types = check(s);
    std::pair<int, int> n;  // of rows, of tokens
    for (const Step& step : s.steps)
      if (s.title(step) == "join" && types[step.in[0]].has("D"))
        ++(types[step.in[0]].jagged_index() >= 0 ? n.first : n.second);
    return n;
  };
  EXPECT_EQ(joins(), std::pair(2, 0));
  sizes.slice_rows = false;
  EXPECT_EQ(joins(), std::pair(0, 2));
}

TEST(TrainingStep, prints_and_parses_to_itself) {
  const TrainingStep step =
      build_step(Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}), tiny(&families::sharded), {}, {2});
  const std::string text = print(step.schedule);
  EXPECT_EQ(print(parse_schedule(text)), text);
}

}  // namespace
}  // namespace plait
