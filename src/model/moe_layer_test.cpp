#include "model/moe_layer.h"

#include <gmock/gmock.h>

namespace plait {
namespace {

ModelSizes one_layer(const FamilySpec* family, const GateSpec* gate) {
  return {.sequences = 4,
          .positions = 8,
          .width = 16,
          .family = family,
          .moe_every = 1,
          .experts = 4,
          .top_k = gate == &switch_gate ? 1 : 2,
          .expert_ffn = 32,
          .gate = gate,
          .aux_coef = gate == &hash_gate ? 0 : 0.01};
}

TEST(MoeLayer, types_alone_in_every_family) {
  for (const FamilySpec* family :
       {&families::ted, &families::dtd, &families::parm, &families::s1, &families::s2, &families::sharded})
    for (const GateSpec* gate : {&softmax_gate, &switch_gate, &gshard_gate, &hash_gate}) {
      const MoeLayer layer = build_moe_layer(Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}), one_layer(family, gate));
      EXPECT_EQ(layer.gradients.count("x"), 1u);
      EXPECT_EQ(layer.gradients.size(), layer.parameters.size() + 1);
    }
}

TEST(MoeLayer, holds_the_gradient_of_its_input_as_the_dual_of_the_input) {
  const MoeLayer layer =
      build_moe_layer(Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}), one_layer(&families::sharded, &softmax_gate));
  const Schedule& s = layer.schedule;
  const Types types = check(s);
  EXPECT_EQ(types[layer.gradients.at("x")].holds, types[s.find("x")].holds);  // S stays S
  EXPECT_EQ(types[s.find("dy")].dims, types[layer.y].dims);
  EXPECT_EQ(s.leaf(s.find("dy"))->kind, LeafKind::data);
}

TEST(MoeLayer, turns_back_only_when_all_of_it_went_there) {
  const MoeLayer layer =
      build_moe_layer(Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}), one_layer(&families::sharded, &softmax_gate));
  const Schedule& s = layer.schedule;
  ASSERT_TRUE(s.repeat.has_value());
  EXPECT_EQ(s.repeat->first, s.repeat->last) << "nothing is repeated";
  const std::vector<int> made = makers(s);
  EXPECT_LT(made[layer.y], s.repeat->first);
  const ValueId dy = s.find("dy");
  for (int i = 0; i < s.repeat->last; ++i) EXPECT_THAT(s.steps[i].in, testing::Not(testing::Contains(dy)));
}

TEST(MoeLayer, has_neither_norm_nor_attention) {
  const MoeLayer layer = build_moe_layer(Mesh{}, one_layer(&families::ted, &softmax_gate));
  for (const Step& step : layer.schedule.steps) EXPECT_FALSE(as<RmsNorm>(step.op) || as<Attention>(step.op));
  EXPECT_EQ(layer.parameters.size(), 3u);
}

}  // namespace
}  // namespace plait
