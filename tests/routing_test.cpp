// Who goes where, and what becomes of it: full and empty experts, ranks without a token, the balance loss, drops.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "choices.h"
#include "corpus.h"
#include "gates/all/kernel.h"
#include "gates/switch/record.h"
#include "one_step.h"
#include "reference_model.h"
#include "train/loop.h"

namespace plait {
namespace {

constexpr const FamilySpec* kFamilies[] = {&families::ted, &families::dtd, &families::s1, &families::s2,
                                           &families::sharded};
const std::string kGate = "model.layers.1.mlp.gate.weight";
const std::string kNorm = "model.layers.1.post_attention_layernorm.weight";

struct Routed {
  at::Tensor weight, idx, slot;
  // Kept routes of each expert.
  std::vector<int64_t> kept(int64_t experts) const {
    std::vector<int64_t> n(static_cast<size_t>(experts));
    for (int64_t r = 0; r < idx.numel(); ++r)
      if (slot.data_ptr<int64_t>()[r] >= 0) ++n[static_cast<size_t>(idx.data_ptr<int64_t>()[r])];
    return n;
  }
};

Routed routed(const at::Tensor& logits, const kernels::RouteOptions& options) {
  const std::vector<int64_t> shape = {logits.size(0), options.top_k};
  Routed r{at::empty(shape, logits.scalar_type()), at::empty(shape, at::kLong), at::empty(shape, at::kLong)};
  kernels::route(logits, {}, options, {r.weight, r.idx, r.slot}, {.priority = {.key = 11, .columns = 64}});
  return r;
}

TEST(Drops, keep_min_of_count_and_capacity_when_all_logits_are_negative) {
  const at::Tensor logits = at::empty({24, 4}, at::kFloat);
  for (int64_t i = 0; i < logits.numel(); ++i) logits.data_ptr<float>()[i] = -1.0f - static_cast<float>(i * i % 7);
  for (int64_t top_k : {1, 2}) {
    const std::vector<int64_t> count = routed(logits, {.top_k = top_k}).kept(4);
    for (Drop drop : {Drop::probs, Drop::position, Drop::rts}) {
      const auto kept = routed(logits, {.drop = drop, .top_k = top_k, .capacity = 5, .group = 24}).kept(4);
      for (size_t e = 0; e < 4; ++e) EXPECT_EQ(kept[e], std::min<int64_t>(count[e], 5));
    }
  }
}

TEST(Drops, keep_exactly_four_of_five_equal_tokens) {
  Config config = parse_config(
      "", "",
      std::vector<std::string>{"moe.num_experts=4", "moe.gate=switch", "moe.capacity=1", "moe.num_experts_per_tok=1"});
  ASSERT_EQ(expert_capacity(config, 5), 4);
  const at::Tensor logits = at::zeros({5, 4});
  logits.select(1, 0).fill_(1);
  for (Drop drop : {Drop::probs, Drop::position, Drop::rts})
    EXPECT_EQ(routed(logits, {.gate = &switch_route, .drop = drop, .top_k = 1, .capacity = 4, .group = 5}).kept(4),
              (std::vector<int64_t>{4, 0, 0, 0}));
}

TEST(Capacity, is_a_multiple_of_tp_where_slots_are_sliced) {
  const auto capacity = [](const char* family, const char* factor, int group) {
    return model_sizes(
               ready_config("", std::vector<std::string>{"model.hidden_size=16", "mesh.tp=2", "train.batch_size=1",
                                                         "train.seq_length=12", "moe.num_experts=4", "moe.gate=switch",
                                                         "moe.num_experts_per_tok=1", "moe.min_capacity=0",
                                                         fmt::format("schedule.moe={}", family),
                                                         fmt::format("moe.capacity={}", factor),
                                                         fmt::format("moe.group={}", group)}))
        .capacity;
  };
  EXPECT_EQ(capacity("dtd", "8", 3), 6) << "twice as many as there are tokens";
  EXPECT_EQ(capacity("dtd", "1", 12), 4) << "3, rounded up";
  EXPECT_EQ(capacity("ted", "1", 12), 3);
}

TEST(Capacity, above_the_number_of_tokens_computes_what_dropless_computes) {
  for (const FamilySpec* family : kFamilies)
    for (const MeshSize& mesh : {MeshSize{}, MeshSize{4, 2, 2, 2}}) {
      ModelSizes sizes = small_sizes();
      sizes.family = family;
      StepCase c{.mesh = mesh, .sizes = sizes, .parameters = random_parameters(sizes), .micro = {random_tokens(sizes)}};
      const StepOutcome dropless = run_steps(c);
      c.sizes.drop = Drop::probs;
      c.sizes.group = 8;
      c.sizes.capacity = 32;
      const StepOutcome padded = run_steps(c);
      EXPECT_EQ(padded.kept, dropless.chosen);
      EXPECT_LT(largest_difference(padded.gradients, dropless.gradients), 1e-12);
    }
}

// A model whose gate sees, of a token with id i, one column per expert: `where(i)` is large, the rest are zero. The
// columns that the gate reads are carried from the embedding to it undisturbed.
StepCase steered(const ModelSizes& sizes, double strength, int64_t (*where)(int64_t id)) {
  StepCase c{.sizes = sizes, .parameters = random_parameters(sizes), .micro = {random_tokens(sizes)}};
  at::Tensor& embedding = c.parameters["model.embed_tokens.weight"];
  for (int64_t id = 0; id < sizes.vocab; ++id)
    for (int64_t e = 0; e < sizes.experts; ++e) embedding[id][e] = e == where(id) ? 4.0 : 0.0;
  for (const auto& [name, tensor] : c.parameters)
    if (name.ends_with("o_proj.weight") || name.ends_with("0.mlp.down_proj.weight"))
      tensor.narrow(0, 0, sizes.experts).zero_();
  c.parameters[kNorm].fill_(1);
  c.parameters[kGate].zero_();
  for (int64_t e = 0; e < sizes.experts; ++e) c.parameters[kGate][e][e] = strength;
  return c;
}

int64_t to_first(int64_t) { return 0; }
int64_t to_both(int64_t id) { return id % 2; }

TEST(AuxLoss, is_one_at_balance_grows_with_skew_and_is_the_number_of_experts_at_collapse) {
  ModelSizes sizes = small_sizes();
  sizes.gate = &switch_gate;
  sizes.top_k = 1;
  sizes.normalize = Normalize::none;
  sizes.aux_coef = 1;
  double before = 0;
  for (double strength : {0.0, 0.3, 1.0, 3.0, 50.0}) {
    const double aux = run_steps(steered(sizes, strength, to_first)).aux;
    if (strength == 0) EXPECT_NEAR(aux, 1, 1e-12) << "equal probabilities, wherever ties go";
    EXPECT_GT(aux, before);
    before = aux;
  }
  EXPECT_NEAR(before, static_cast<double>(sizes.experts), 1e-9);
}

// Tokens are about as sure of their expert in both; which expert it is differs.
TEST(AuxLoss, depends_on_who_was_chosen_not_only_on_how_surely) {
  ModelSizes sizes = small_sizes();
  sizes.gate = &switch_gate;
  sizes.top_k = 1;
  sizes.normalize = Normalize::none;
  sizes.aux_coef = 1;
  const StepOutcome one = run_steps(steered(sizes, 1, to_first)), two = run_steps(steered(sizes, 1, to_both));
  EXPECT_GT(one.aux, two.aux + 0.5);
}

TEST(IdleExperts, of_whole_ranks_get_zero_gradients_and_all_else_equals_one_rank) {
  for (const FamilySpec* family : kFamilies)
    for (bool padded : {false, true})
      for (const MeshSize& mesh : {MeshSize{4, 1, 1, 4}, MeshSize{4, 2, 2, 2}}) {
        ModelSizes sizes = small_sizes();
        sizes.family = family;
        sizes.top_k = 1;
        sizes.normalize = Normalize::none;
        sizes.aux_coef = 0.1;
        if (padded) sizes.group = 8, sizes.capacity = 4, sizes.drop = Drop::position;
        StepCase c = steered(sizes, 5, to_first);
        const ReferenceOutcome one = reference(sizes, c.parameters, c.micro);
        EXPECT_GT(one.margin, kMargin);
        c.mesh = mesh;
        c.optimizer.weight_decay = 0.1;
        const StepOutcome many = run_steps(c);
        EXPECT_EQ(many.chosen[0], (std::vector<double>{32, 0, 0, 0}));
        EXPECT_LT(largest_difference(many.gradients, one.gradients), 1e-10);
        for (const char* name : {"model.layers.1.mlp.experts.gate_up_proj", "model.layers.1.mlp.experts.down_proj"}) {
          const at::Tensor idle = many.gradients.at(name).narrow(0, 1, 3);
          EXPECT_EQ(idle.abs().max().item<double>(), 0) << name;
          EXPECT_GT(many.gradients.at(name)[0].abs().max().item<double>(), 0) << name;
          EXPECT_TRUE(many.updated.at(name).narrow(0, 1, 3).allclose(
              c.parameters.at(name).narrow(0, 1, 3) * (1 - c.lr * 0.1), 1e-14, 0))
              << "weight decay goes on";
        }
      }
}

TEST(UnevenRanks, with_five_and_three_tokens_and_then_none_equal_one_rank) {
  for (const FamilySpec* family : kFamilies)
    for (const auto& [first, second] : {std::pair<int64_t, int64_t>{5, 3}, {5, 0}}) {
      ModelSizes sizes = small_sizes();
      sizes.sequences = 2;
      sizes.family = family;
      sizes.aux_coef = 0.1;
      sizes.z_coef = 0.1;
      StepCase c{.sizes = sizes, .parameters = random_parameters(sizes), .micro = {random_tokens(sizes)}};
      c.micro[0].mask.narrow(0, first, 8 - first).zero_();
      c.micro[0].mask.narrow(0, 8 + second, 8 - second).zero_();
      const ReferenceOutcome one = reference(sizes, c.parameters, c.micro);
      EXPECT_GT(one.margin, kMargin);
      for (const MeshSize& mesh : {MeshSize{2, 1, 1, 2}, MeshSize{2, 1, 1, 1}, MeshSize{4, 2, 2, 2}}) {
        if (this_launch().launched() && mesh.ranks != this_launch().ranks) continue;
        c.mesh = mesh;
        const StepOutcome many = run_steps(c);
        EXPECT_NEAR(many.nll[0], one.nll, 1e-12);
        EXPECT_NEAR(many.aux, one.aux, 1e-12);
        EXPECT_LT(largest_difference(many.gradients, one.gradients), 1e-10) << first << ", " << second;
        EXPECT_EQ(many.chosen, one.chosen);
      }
    }
}

// The first token is the one that is dropped; the later ones' gradients go through their own weights only. Every token
// has an id of its own, surer of expert 0 the higher it is. Expert 1 comes next, nearer for even ids: some tokens keep
// both, without which normalised weights have no gradient, and some one.
TEST(Drops, of_the_first_token_leave_the_later_tokens_gradients_right) {
  for (Normalize normalize : {Normalize::none, Normalize::before, Normalize::after}) {
    ModelSizes sizes = small_sizes();
    sizes.vocab = 40;
    sizes.normalize = normalize;
    sizes.drop = Drop::probs;
    sizes.group = 32;
    sizes.capacity = 6;
    StepCase c = steered(sizes, 0.5, to_first);
    for (int64_t t = 0; t < sizes.tokens(); ++t) c.micro[0].ids[t] = t;
    for (int64_t id = 0; id < sizes.vocab; ++id) {
      const double sure = 0.5 + 0.1 * static_cast<double>(id);
      c.parameters["model.embed_tokens.weight"][id][0] = sure;
      c.parameters["model.embed_tokens.weight"][id][1] = (id % 2 ? 0.6 : 0.8) * sure;
    }
    const ReferenceOutcome one = reference(sizes, c.parameters, c.micro);
    EXPECT_GT(one.margin, 1e-6);
    EXPECT_EQ(one.kept[0], (std::vector<double>{6, 6, 0, 0}));
    EXPECT_EQ(one.chosen[0], (std::vector<double>{32, 32, 0, 0}));
    EXPECT_GT(one.gradients.at(kGate).abs().max().item<double>(), 1e-4);
    for (const MeshSize& mesh : {MeshSize{}, MeshSize{2, 2, 2, 1}}) {
      c.mesh = mesh;
      c.sizes.family = &families::ted;
      EXPECT_LT(largest_difference(run_steps(c).gradients, one.gradients), 1e-10);
    }
  }
}

TEST(Evaluation, gives_the_same_bits_again_also_over_capacity) {
  const data::Corpus corpus = random_corpus(8000);
  for (const char* capacity : {"none", "0.5"})
    for (const char* family : {"ted", "dtd", "s1", "s2", "sharded"}) {
      const Config config = ready_config(
          "", std::vector<std::string>{"model.hidden_size=16", "model.intermediate_size=8", "train.seq_length=16",
                                       "model.num_hidden_layers=2", "mesh.tp=2", "mesh.ep=2", "train.batch_size=8",
                                       "train.eval_batches=3", fmt::format("moe.capacity={}", capacity),
                                       fmt::format("schedule.moe={}", family)});
      std::array<double, 3> loss = {};
      wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
        Trainer trainer(config, run_shape(config), corpus, {rank, &world, at::kFloat});
        std::array<double, 3> mine = {*trainer.evaluate(), *trainer.evaluate(), 0};
        trainer.step(0, 1e-3);
        trainer.evaluate();
        mine[2] = *trainer.evaluate();
        if (rank == 0) loss = mine;
      });
      EXPECT_EQ(loss[0], loss[1]);
      EXPECT_NE(loss[0], loss[2]) << "it sees the new parameters";
    }
}

}  // namespace
}  // namespace plait
