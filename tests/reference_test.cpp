// The schedule of a training step against the model written plainly under autograd: losses, every gradient, norm.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "choices.h"
#include "reference_model.h"

namespace plait {
namespace {

constexpr double kBound = 1e-10;

// Padding at the end of the first sequence, a sequence of nothing, and holes.
Tokens padded_tokens(const ModelSizes& sizes, uint64_t salt = 1) {
  Tokens tokens = random_tokens(sizes, salt);
  tokens.mask.narrow(0, 5, 3).zero_();
  tokens.mask.narrow(0, 8, 8).zero_();
  tokens.mask[18] = 0;
  return tokens;
}

void expect_equal(const StepCase& c, const std::string& what) {
  const StepOutcome mine = run_steps(c);
  const ReferenceOutcome theirs = reference(c.sizes, c.parameters, c.micro);
  EXPECT_GT(theirs.margin, kMargin) << what;
  EXPECT_NEAR(mine.nll[0], theirs.nll, kBound * theirs.nll) << what;
  EXPECT_NEAR(mine.aux, theirs.aux, kBound * std::max(1.0, theirs.aux)) << what;
  EXPECT_NEAR(mine.norm, theirs.norm, kBound * theirs.norm) << what;
  for (const auto& [name, gradient] : theirs.gradients)
    EXPECT_LT(relative_difference(mine.gradients.at(name), gradient), kBound) << name << ", " << what;
  EXPECT_EQ(mine.chosen, theirs.chosen) << what;
  EXPECT_EQ(mine.kept, theirs.kept) << what;
  EXPECT_TRUE(mine.replicas.empty()) << what << ": " << mine.replicas.front();
}

StepCase of(const ModelSizes& sizes, std::vector<Tokens> micro) {
  return {.sizes = sizes, .parameters = random_parameters(sizes), .micro = std::move(micro)};
}

TEST(Reference, is_equalled_by_every_activation_gated_and_plain) {
  for (Act act : {Act::silu, Act::gelu, Act::relu, Act::gelu_tanh})
    for (bool glu : {true, false}) {
      ModelSizes sizes = small_sizes();
      sizes.act = act;
      sizes.glu = glu;
      expect_equal(of(sizes, {random_tokens(sizes)}), fmt::format("act {}, glu {}", static_cast<int>(act), glu));
    }
}

TEST(Reference, is_equalled_with_fewer_key_value_heads_and_either_head) {
  for (int64_t kv_heads : {4, 2, 1})
    for (bool tied : {true, false}) {
      ModelSizes sizes = small_sizes();
      sizes.moe_every = 0;
      sizes.kv_heads = kv_heads;
      sizes.tied = tied;
      expect_equal(of(sizes, {padded_tokens(sizes)}), fmt::format("{} key/value heads, tied {}", kv_heads, tied));
    }
}

TEST(Reference, is_equalled_by_every_gate_with_its_losses) {
  struct Form {
    const GateSpec* gate;
    int64_t top_k;
    double aux, z;
  };
  for (const Form& form : {Form{&switch_gate, 1, 0, 0}, Form{&switch_gate, 1, 0.3, 0.1}, Form{&softmax_gate, 1, 0.3, 0},
                           Form{&softmax_gate, 2, 0, 0.2}, Form{&softmax_gate, 3, 0.3, 0.1}})
    for (Normalize normalize : {Normalize::before, Normalize::after, Normalize::none}) {
      ModelSizes sizes = small_sizes();
      sizes.moe_every = 1;
      sizes.gate = form.gate;
      sizes.top_k = form.top_k;
      sizes.normalize = form.gate == &switch_gate ? Normalize::none : normalize;
      sizes.aux_coef = form.aux;
      sizes.z_coef = form.z;
      expect_equal(
          of(sizes, {random_tokens(sizes), padded_tokens(sizes, 2)}),
          fmt::format("gate {}, top {}, normalize {}", form.gate->name, form.top_k, static_cast<int>(normalize)));
    }
}

TEST(Reference, is_equalled_over_capacity) {
  for (Drop drop : {Drop::probs, Drop::position})
    for (Normalize normalize : {Normalize::before, Normalize::after, Normalize::none}) {
      ModelSizes sizes = small_sizes();
      sizes.normalize = normalize;
      sizes.drop = drop;
      sizes.group = 16;
      sizes.capacity = 5;
      sizes.aux_coef = 0.3;
      const StepCase c = of(sizes, {random_tokens(sizes), padded_tokens(sizes, 2)});
      const ReferenceOutcome theirs = reference(sizes, c.parameters, c.micro);
      EXPECT_LT(theirs.kept[0][0] + theirs.kept[0][1] + theirs.kept[0][2] + theirs.kept[0][3], 2 * (32 + 20.0));
      expect_equal(c, fmt::format("drop {}, normalize {}", static_cast<int>(drop), static_cast<int>(normalize)));
    }
}

// Case by case: tp alone, ep alone, both, edp, and experts cut otherwise than attention.
TEST(Reference, is_equalled_at_every_layout_with_uneven_ranks) {
  constexpr MeshSize kLayouts[] = {{2, 2, 2, 1}, {2, 1, 1, 2}, {2, 1, 1, 1}, {4, 2, 2, 2}, {8, 2, 2, 2}, {4, 1, 1, 4},
                                   {4, 4, 4, 1}, {4, 2, 1, 4}, {4, 4, 1, 4}, {8, 2, 4, 2}, {4, 1, 2, 2}, {8, 4, 2, 4}};
  for (const FamilySpec* family :
       {&families::ted, &families::dtd, &families::parm, &families::s1, &families::s2, &families::sharded})
    for (const MeshSize& mesh : kLayouts) {
      if ((family == &families::ted || family == &families::dtd) && mesh.esp != mesh.tp) continue;
      ModelSizes sizes = small_sizes();
      sizes.family = family;
      sizes.fuse = family == &families::s1 || family == &families::s2;
      sizes.chunks = family == &families::sharded ? 2 : 1;
      sizes.aux_coef = 0.3;
      sizes.z_coef = 0.1;
      StepCase c = of(sizes, {padded_tokens(sizes), random_tokens(sizes, 2)});
      c.mesh = mesh;
      expect_equal(c, fmt::format("family {}, {} ranks, tp {}, esp {}, ep {}", family->name, mesh.ranks, mesh.tp,
                                  mesh.esp, mesh.ep));
    }
}

ModelSizes gpt2_sizes() {
  ModelSizes sizes = small_sizes();
  sizes.architecture = &architectures::gpt2;
  sizes.position_rows = 11;
  sizes.act = Act::gelu_tanh;
  sizes.glu = false;
  return sizes;
}

TEST(Reference, is_equalled_by_gpt2_dense_and_with_experts) {
  for (int64_t every : {0, 1, 2}) {
    ModelSizes sizes = gpt2_sizes();
    sizes.moe_every = every;
    expect_equal(of(sizes, {padded_tokens(sizes), random_tokens(sizes, 2)}), fmt::format("experts every {}", every));
  }
}

// Biases of experts in padded slots, whose unused ones they reach too.
TEST(Reference, is_equalled_by_gpt2_over_capacity) {
  ModelSizes sizes = gpt2_sizes();
  sizes.drop = Drop::probs;
  sizes.group = 8;
  sizes.capacity = 3;
  for (const MeshSize& mesh : {MeshSize{1, 1, 1, 1}, MeshSize{4, 2, 2, 2}}) {
    StepCase c = of(sizes, {random_tokens(sizes)});
    c.mesh = mesh;
    expect_equal(c, fmt::format("{} ranks", mesh.ranks));
  }
}

TEST(Reference, is_equalled_by_gpt2_of_every_family) {
  constexpr MeshSize kLayouts[] = {{4, 2, 2, 2}, {4, 2, 1, 4}, {8, 2, 4, 2}, {4, 1, 1, 2}};
  for (const FamilySpec* family :
       {&families::ted, &families::dtd, &families::parm, &families::s1, &families::s2, &families::sharded})
    for (const MeshSize& mesh : kLayouts) {
      if ((family == &families::ted || family == &families::dtd) && mesh.esp != mesh.tp) continue;
      ModelSizes sizes = gpt2_sizes();
      sizes.family = family;
      sizes.fuse = family == &families::s1 || family == &families::s2;
      sizes.chunks = family == &families::sharded ? 2 : 1;
      sizes.aux_coef = 0.3;
      StepCase c = of(sizes, {padded_tokens(sizes)});
      c.mesh = mesh;
      expect_equal(c, fmt::format("family {}, {} ranks, tp {}, esp {}, ep {}", family->name, mesh.ranks, mesh.tp,
                                  mesh.esp, mesh.ep));
    }
}

}  // namespace
}  // namespace plait
