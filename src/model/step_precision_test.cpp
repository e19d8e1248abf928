// Training steps of mixed precision: they type everywhere, and gradients are added up in what was asked for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/step.h"

namespace plait {
namespace {

ModelSizes mixed(const FamilySpec* family) {
  ModelSizes s{
      .sequences = 8, .positions = 8, .vocab = 32, .width = 16, .layers = 2, .heads = 4, .kv_heads = 4, .ffn = 32};
  s.precision = Precision::mixed;
  s.family = family;
  s.moe_every = 1;
  s.experts = 4;
  s.top_k = 2;
  s.expert_ffn = 32;
  s.aux_coef = 0.01;
  return s;
}

// Of the matrices: the leaves that micro-batches add to, and what leaves or is scattered to where it is stored.
void expect_sums_in(const TrainingStep& step, Dtype dtype) {
  const Schedule& s = step.schedule;
  const Types types = check(s);
  int sums = 0;
  for (const Parameter& p : step.parameters)
    if (p.dtype == Dtype::real) {
      EXPECT_EQ(types[step.gradients.at(p.name)].dtype, dtype) << p.name;
      ++sums;
    }
  EXPECT_GT(sums, 10);
  for (const Step& st : s.steps)
    if (as<Accumulate>(st.op) && types[st.in[0]].dtype == Dtype::real)
      EXPECT_EQ(dtype, Dtype::real) << s.names[st.out[0]];
}

TEST(MixedStep, types_at_every_layout_and_adds_gradients_up_in_what_it_is_told) {
  for (const MeshSize& mesh : {MeshSize{}, MeshSize{4, 2, 2, 2}, MeshSize{8, 2, 2, 2}, MeshSize{4, 1, 1, 2}})
    for (const FamilySpec* family :
         {&families::ted, &families::dtd, &families::parm, &families::s1, &families::s2, &families::sharded})
      for (Zero zero : {Zero::none, Zero::states, Zero::parameters})
        for (int micro : {1, 2})
          for (Dtype dtype : {Dtype::full, Dtype::real}) {
            ModelSizes sizes = mixed(family);
            SCOPED_TRACE(fmt::format("ranks {} tp {} family {} zero {} micro-batches {} sums {}", mesh.ranks, mesh.tp,
                                     family->name, static_cast<int>(zero), micro, static_cast<int>(dtype)));
            sizes.zero = zero;
            sizes.recompute = micro == 1 ? Recompute::none : Recompute::full;
            Optimizer optimizer;
            optimizer.sums = dtype;
            optimizer.scaling = micro == 1 ? Optimizer::Scaling::none : Optimizer::Scaling::dynamic;
            expect_sums_in(build_step(Mesh(mesh), sizes, optimizer, {micro}), dtype);
          }
}

TEST(MixedStep, types_with_every_way_of_the_rows_and_of_the_gate) {
  const Mesh mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 4, .node = 4});
  for (const FamilySpec* family : {&families::ted, &families::parm, &families::s1, &families::s2, &families::sharded})
    for (Dispatch dispatch : {Dispatch::direct, Dispatch::levels, Dispatch::node})
      for (const GateSpec* gate : {&softmax_gate, &sigmoid_gate, &noisy_topk_gate}) {
        if (dispatch == Dispatch::node && family == &families::parm) continue;
        ModelSizes sizes = mixed(family);
        sizes.dispatch = dispatch;
        sizes.slice_rows = dispatch == Dispatch::levels;
        sizes.pad_rows = gate == &softmax_gate && dispatch != Dispatch::node;
        sizes.gate = gate;
        sizes.noise = gate == &noisy_topk_gate;
        sizes.chunks = gate == &sigmoid_gate ? 2 : 1;
        SCOPED_TRACE(
            fmt::format("family {} dispatch {} gate {}", family->name, static_cast<int>(dispatch), gate->name));
        Optimizer optimizer;
        optimizer.scaling = Optimizer::Scaling::dynamic;
        expect_sums_in(build_step(mesh, sizes, optimizer, {2}), Dtype::full);
      }
}

TEST(MixedStep, starts_the_way_back_from_the_scale_that_the_update_divides_by) {
  Optimizer optimizer;
  optimizer.scaling = Optimizer::Scaling::dynamic;
  const Schedule s = build_step(Mesh(), mixed(&families::ted), optimizer, {2}).schedule;
  const ValueId scale = s.find("loss_scale");
  ASSERT_GE(scale, 0);
  EXPECT_EQ(s.leaf(scale)->kind, LeafKind::scalar);
  int readers = 0;
  for (const Step& step : s.steps)
    if (as<ClipFactor>(step.op)) readers += step.in.size() == 2 && step.in[1] == scale;
  EXPECT_EQ(readers, 1);
}

TEST(MixedStep, of_one_precision_casts_nothing) {
  ModelSizes sizes = mixed(&families::s1);
  sizes.precision = Precision::one;
  for (const Step& step : build_step(Mesh({4, 2, 2, 2}), sizes, {}, {2}).schedule.steps)
    EXPECT_FALSE(as<Cast>(step.op)) << name(step.op);
}

}  // namespace
}  // namespace plait
