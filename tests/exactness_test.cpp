// Gradients, norms and replicas where trainers are known to go wrong: what the number of ranks that share an expert, a
// head or a batch must not change.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "corpus.h"
#include "one_step.h"
#include "train/loop.h"

namespace plait {
namespace {

constexpr const FamilySpec* kFamilies[] = {&families::ted, &families::dtd, &families::s1, &families::s2,
                                           &families::sharded};
const std::string kGate = "model.layers.1.mlp.gate.weight";
const std::string kExpertUp = "model.layers.1.mlp.experts.gate_up_proj";

StepCase small_case() {
  const ModelSizes sizes = small_sizes();
  return {.sizes = sizes, .parameters = random_parameters(sizes), .micro = {random_tokens(sizes)}};
}

StepOutcome on(StepCase c, const MeshSize& mesh) {
  c.mesh = mesh;
  return run_steps(c);
}

TEST(Experts, have_the_same_gradient_however_many_ranks_share_them) {
  for (const FamilySpec* family : kFamilies) {
    StepCase c = small_case();
    c.sizes.family = family;
    const StepOutcome one = on(c, {});
    for (int ep : {1, 2, 4}) {
      const StepOutcome many = on(c, {.ranks = 4, .ep = ep});
      for (const auto& [name, gradient] : one.gradients)
        EXPECT_LT(relative_difference(many.gradients.at(name), gradient), 1e-12) << name << ", ep " << ep;
      // Plain descent: the step is the gradient, so that a wrong scale cannot hide.
      EXPECT_LT(largest_difference(many.updated, one.updated), 1e-12) << "ep " << ep;
    }
  }
}

TEST(Experts, take_a_tokens_rows_once_whatever_tp_is) {
  for (const FamilySpec* family : kFamilies) {
    StepCase c = small_case();
    c.sizes.family = family;
    const int64_t routes = c.sizes.tokens() * c.sizes.top_k;
    const StepOutcome two = on(c, {.ranks = 2, .tp = 2, .esp = 2});
    EXPECT_EQ(two.expert_rows, (std::vector<int64_t>{routes, routes})) << "each rank has half of every expert's width";
    const StepOutcome four = on(c, {.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
    EXPECT_EQ(four.expert_rows[0] + four.expert_rows[2], routes);
    EXPECT_EQ(std::accumulate(two.chosen[0].begin(), two.chosen[0].end(), 0.0), static_cast<double>(routes));
  }
}

// Both sides of every coordinate that was drawn, in float64: the gate's choice does not change for so small a step.
TEST(Router, has_the_gradient_of_differences_without_an_auxiliary_loss) {
  for (const FamilySpec* family : kFamilies) {
    StepCase c = small_case();
    c.sizes.family = family;
    const at::Tensor gradient = on(c, {.ranks = 4, .tp = 2, .esp = 2, .ep = 2}).gradients.at(kGate);
    EXPECT_GT(gradient.abs().max().item<double>(), 1e-4);
    const double h = 1e-6;
    for (int64_t e = 0; e < c.sizes.experts; ++e) {
      const int64_t d = 3 * e + 1;
      const auto loss = [&](double shift) {
        StepCase moved = c;
        moved.parameters[kGate] = c.parameters[kGate].clone();
        moved.parameters[kGate][e][d] += shift;
        return run_steps(moved).nll[0];
      };
      EXPECT_NEAR(gradient[e][d].item<double>(), (loss(h) - loss(-h)) / (2 * h), 1e-8) << e << ", " << d;
    }
  }
}

TEST(Accumulation, of_two_micro_batches_is_the_merged_batch_without_an_auxiliary_loss) {
  StepCase merged = small_case(), halves = merged;
  halves.sizes.sequences /= 2;
  const int64_t half = halves.sizes.tokens();
  halves.micro.clear();
  for (int64_t first : {int64_t{0}, half}) {
    const Tokens& all = merged.micro[0];
    halves.micro.push_back(
        {all.ids.narrow(0, first, half), all.targets.narrow(0, first, half), all.mask.narrow(0, first, half)});
  }
  for (const MeshSize& mesh : {MeshSize{}, MeshSize{4, 2, 2, 2}, MeshSize{2, 1, 1, 1}}) {
    const StepOutcome one = on(merged, mesh), two = on(halves, mesh);
    EXPECT_NEAR(one.nll[0], two.nll[0], 1e-12);
    EXPECT_NEAR(one.norm, two.norm, 1e-12 * one.norm);
    EXPECT_LT(largest_difference(two.gradients, one.gradients), 1e-12) << mesh.ranks << " ranks";
  }
}

TEST(Clipping, that_always_bites_is_the_same_at_every_layout) {
  StepCase c = small_case();
  c.optimizer.clip = 1e-2;
  c.steps = 5;
  const StepOutcome one = on(c, {});
  EXPECT_GT(one.norm, 10 * c.optimizer.clip);
  EXPECT_LT(one.nll[4], one.nll[0]);
  for (const MeshSize& mesh : {MeshSize{2, 1, 1, 2}, MeshSize{2, 1, 1, 1}, MeshSize{4, 2, 2, 2}}) {
    const StepOutcome many = on(c, mesh);
    for (int step = 0; step < c.steps; ++step) EXPECT_NEAR(many.nll[step], one.nll[step], 1e-11) << step;
  }
  c.optimizer.clip = 0;
  EXPECT_GT(std::abs(on(c, {}).nll[4] - one.nll[4]), 1e-4) << "it did bite";
}

TEST(Replicas, keep_the_same_bits_in_float32_after_every_step) {
  for (const FamilySpec* family : kFamilies)
    for (const MeshSize& mesh : {MeshSize{8, 2, 2, 2}, MeshSize{4, 4, 4, 1}, MeshSize{4, 1, 1, 2}}) {
      StepCase c = small_case();
      c.sizes.family = family;
      c.sizes.aux_coef = 0.1;
      c.optimizer = {.clip = 0.5};
      c.lr = 1e-2;
      c.steps = 3;
      c.dtype = at::kFloat;
      const StepOutcome out = on(c, mesh);
      EXPECT_TRUE(out.replicas.empty()) << out.replicas.front();
      EXPECT_LT(out.nll[2], out.nll[0]);
    }
}

// Parameters after two steps, whole.
Tensors trained(const Config& config, const data::Corpus& corpus) {
  Tensors whole;
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    Trainer trainer(config, run_shape(config), corpus, {rank, &world, at::kFloat});
    for (int step = 0; step < 2; ++step) trainer.step(step, 1e-2);
    for (const Parameter& p : trainer.schedule().parameters) {
      const at::Tensor tensor = trainer.whole(p.name);
      if (rank == 0) whole[p.name] = tensor.clone();
    }
  });
  return whole;
}

TEST(Repeats, give_the_same_bits_ten_times_with_one_thread_and_with_two) {
  const data::Corpus corpus = random_corpus(4000);
  for (const char* threads : {"mesh.threads=1", "mesh.threads=2"})
    for (const char* family : {"schedule.moe=s2", "schedule.moe=sharded"}) {
      const Config config = ready_config(
          "", std::vector<std::string>{"model.hidden_size=32", "model.num_hidden_layers=2",
                                       "model.intermediate_size=64", "train.seq_length=32", "train.batch_size=8",
                                       "mesh.tp=2", "mesh.ep=2", "moe.capacity=1", "moe.drop=rts", family, threads});
      const Tensors first = trained(config, corpus);
      for (int repeat = 1; repeat < 10; ++repeat)
        for (const auto& [name, tensor] : trained(config, corpus))
          EXPECT_TRUE(tensor.equal(first.at(name))) << name << ", " << family << ", " << threads;
    }
}

// A parameter as training starts with it, at a layout.
Tensors initial(const std::vector<std::string>& overrides) {
  const data::Corpus corpus = random_corpus(4000);
  std::vector<std::string> all = {"model.hidden_size=16", "model.num_hidden_layers=2", "model.intermediate_size=8",
                                  "train.seq_length=8"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Config config = ready_config("", all);
  Tensors whole;
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    Trainer trainer(config, run_shape(config), corpus, {rank, &world, at::kFloat});
    for (const Parameter& p : trainer.schedule().parameters) {
      const at::Tensor tensor = trainer.whole(p.name);
      if (rank == 0) whole[p.name] = tensor.clone();
    }
  });
  return whole;
}

TEST(Initialisation, is_the_same_at_every_layout_and_differs_between_experts) {
  const Tensors one = initial({});
  for (const std::vector<std::string>& layout : {std::vector<std::string>{"mesh.tp=2", "mesh.ep=2"},
                                                 {"mesh.ep=4", "mesh.dp=8"},
                                                 {"mesh.tp=2", "mesh.esp=4", "mesh.ep=1", "schedule.moe=sharded"}})
    for (const auto& [name, tensor] : initial(layout))
      EXPECT_TRUE(tensor.equal(one.at(name))) << name << ", " << layout[0];
  const at::Tensor& experts = one.at(kExpertUp);
  for (int64_t a = 0; a < experts.size(0); ++a)
    for (int64_t b = 0; b < a; ++b) EXPECT_FALSE(experts[a].equal(experts[b])) << a << ", " << b;
  EXPECT_FALSE(experts.equal(one.at("model.layers.0.mlp.experts.gate_up_proj")));
}

}  // namespace
}  // namespace plait
