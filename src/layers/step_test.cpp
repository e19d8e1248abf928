#include "layers/step.h"

#include <gmock/gmock.h>

#include "schedule/text.h"

namespace plait {
namespace {

ModelSizes tiny(Family family) {
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
    for (Family family : {Family::ted, Family::dtd, Family::parm, Family::s1, Family::s2, Family::sharded}) {
      for (const ModelSizes& sizes : {tiny(family), with_capacity(tiny(family))}) {
        for (int micro : {1, 2}) {
          const Mesh mesh({.ranks = l.tp * l.ep * l.edp, .tp = l.tp, .esp = l.tp, .ep = l.ep});
          ASSERT_NO_THROW(build_step(mesh, sizes, {}, micro))
              << l.tp << l.ep << l.edp << static_cast<int>(family) << sizes.capacity;
        }
      }
    }
  }
}

TEST(TrainingStep, synchronises_each_kind_of_gradient_in_one_message) {
  const TrainingStep step = build_step(Mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 2}), tiny(Family::ted), {}, 1);
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

TEST(TrainingStep, prints_and_parses_to_itself) {
  const TrainingStep step = build_step(Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}), tiny(Family::sharded), {}, 2);
  const std::string text = print(step.schedule);
  EXPECT_EQ(print(parse_schedule(text)), text);
}

}  // namespace
}  // namespace plait
