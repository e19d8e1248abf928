// Gradients on one rank against central differences, op by op and of the whole toy; every other test leans on them.
#include <gtest/gtest.h>

#include <cmath>

#include "gates/base/record.h"
#include "gates/expert_choice/record.h"
#include "gates/gshard/record.h"
#include "gates/sigmoid/record.h"
#include "gates/switch/record.h"
#include "passes/lower.h"
#include "passes/testing/families.h"

namespace plait::oracle {
namespace {

double loss_of(const Schedule& lowered, ValueId loss, const Feed& feed) {
  return interpret(lowered, feed).values[loss][0][0];
}

void expect_gradients(const Schedule& forward, ValueId loss, Feed feed, double step = 1e-6) {
  const Differentiated d = differentiate(forward, loss);
  const Schedule lowered = lower(d.schedule), alone = lower(forward);
  for (const Leaf& leaf : d.schedule.leaves)
    if (leaf.kind == LeafKind::seed) feed[leaf.value] = {Array({}, {1.0})};
  const Execution run = interpret(lowered, feed);
  double largest = 0;
  for (const auto& [leaf, gradient] : d.gradients) {
    const Array& g = run.values[gradient][0];
    Array& x = feed[leaf][0];
    for (int64_t i = 0; i < x.size(); ++i) {
      const double kept = x[i];
      x[i] = kept + step;
      const double up = loss_of(alone, loss, feed);
      x[i] = kept - step;
      const double down = loss_of(alone, loss, feed);
      x[i] = kept;
      EXPECT_NEAR(g[i], (up - down) / (2 * step), 2e-7 * std::max(1.0, std::abs(g[i])))
          << "d loss / d " << forward.names[leaf] << "[" << i << "]";
      largest = std::max(largest, std::abs(g[i]));
    }
  }
  EXPECT_GT(largest, 1e-3) << "no gradient to compare";
}

// Writes one op between leaves and a loss that weighs each of its results with constants.
class Case {
 public:
  Case() : b_(Mesh()) {}

  ValueId parameter(const std::string& name, std::vector<Dim> dims) {
    return leaf(LeafKind::parameter, name, std::move(dims));
  }
  ValueId data(const std::string& name, std::vector<Dim> dims) { return leaf(LeafKind::data, name, std::move(dims)); }
  ValueId integers(const std::string& name, std::vector<Dim> dims, std::vector<double> values) {
    Type type{.dims = dims, .dtype = Dtype::integer, .grad = false};
    std::vector<int64_t> shape;
    for (const Dim& dim : dims) shape.push_back(dim.size);
    const ValueId v = b_.leaf(LeafKind::data, name, type);
    feed_[v] = {Array(shape, std::move(values))};
    return v;
  }
  std::vector<ValueId> add(Op op, std::vector<ValueId> in) { return b_.add_all(std::move(op), std::move(in)); }
  Array& fed(ValueId v) { return feed_[v][0]; }

  // `weighted`: the values that the loss reads.
  void check(const std::vector<ValueId>& weighted) {
    std::vector<ValueId> parts;
    for (ValueId v : weighted) {
      if (b_.type(v).dims.empty()) {
        parts.push_back(v);
        continue;
      }
      const ValueId c = data("c" + std::to_string(v), b_.type(v).dims);
      parts.push_back(b_.add(Einsum{}, {v, c}));
    }
    const ValueId loss = parts.size() > 1 ? b_.add(Add{}, parts) : parts.front();
    b_.schedule().outputs = {loss};
    expect_gradients(b_.schedule(), loss, feed_);
  }

 private:
  ValueId leaf(LeafKind kind, const std::string& name, std::vector<Dim> dims) {
    std::vector<int64_t> shape;
    for (const Dim& dim : dims) shape.push_back(dim.size);
    const ValueId v = b_.leaf(kind, name, std::move(dims));
    feed_[v] = {normal_array(shape, name, 0.7)};
    return v;
  }

  Builder b_;
  Feed feed_;
};

TEST(Gradient, of_a_product) {
  Case c;
  c.check(c.add(Einsum{{"T", "F"}}, {c.parameter("x", {{"T", 3}, {"D", 4}}), c.parameter("w", {{"D", 4}, {"F", 2}})}));
}

TEST(Gradient, of_a_batched_product_with_a_transposed_operand) {
  Case c;
  c.check(c.add(Einsum{{"E", "C", "F"}},
                {c.parameter("x", {{"E", 2}, {"C", 3}, {"D", 4}}), c.parameter("w", {{"E", 2}, {"F", 5}, {"D", 4}})}));
}

TEST(Gradient, of_a_value_read_twice_and_scaled) {
  Case c;
  const ValueId x = c.parameter("x", {{"T", 3}});
  c.check(c.add(Add{}, {c.add(Scale{2.5}, {x})[0], x}));
}

TEST(Gradient, of_chunks_put_back_together) {
  Case c;
  const std::vector<ValueId> parts = c.add(Split{"T", "halves", 2}, {c.parameter("x", {{"D", 2}, {"T", 4}})});
  c.check(c.add(Concat{"T", "halves"}, {c.add(Scale{3}, {parts[0]})[0], c.add(Activate{}, {parts[1]})[0]}));
}

TEST(Gradient, of_unflatten_and_flatten) {
  Case c;
  const ValueId x = c.add(Unflatten{"T", "B", "S", 3}, {c.parameter("x", {{"T", 6}, {"D", 2}})})[0];
  c.check(c.add(Flatten{"T", "B", "S"}, {c.add(Activate{}, {x})[0]}));
}

TEST(Gradient, of_pack_and_unpack) {
  Case c;
  const ValueId x = c.add(Pack{8}, {c.parameter("x", {{"D", 2}, {"F", 3}})})[0];
  c.check(c.add(Unpack{{{"D", 2}, {"F", 3}}}, {c.add(Scale{3}, {x})[0]}));
}

TEST(Gradient, of_every_activation) {
  for (Act act : {Act::silu, Act::gelu, Act::relu}) {
    Case plain, gated;
    plain.check(plain.add(Activate{.act = act}, {plain.parameter("x", {{"T", 3}, {"F", 4}})}));
    gated.check(gated.add(Activate{.act = act, .glu = true}, {gated.parameter("x", {{"T", 3}, {"U", 2}, {"F", 4}})}));
  }
}

TEST(Gradient, of_rms_norm) {
  Case c;
  c.check(c.add(RmsNorm{.eps = 1e-2}, {c.parameter("x", {{"T", 3}, {"D", 5}}), c.parameter("gain", {{"D", 5}})}));
}

TEST(Gradient, of_rope_both_ways) {
  for (Direction direction : {Direction::forward, Direction::inverse}) {
    Case c;
    c.check(c.add(Rope{.theta = 100, .direction = direction},
                  {c.parameter("x", {{"B", 2}, {"S", 3}, {"H", 2}, {"A", 4}})}));
  }
}

TEST(Rope, inverse_undoes_forward) {
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::parameter, "x", {{"B", 1}, {"S", 5}, {"H", 2}, {"A", 4}});
  const ValueId y = b.add(Rope{.direction = Direction::inverse}, {b.add(Rope{}, {x})});
  const Array in = normal_array({1, 5, 2, 4}, "x", 1);
  EXPECT_LT(max_difference(interpret(b.schedule(), {{x, {in}}}).values[y][0], in), 1e-14);
}

TEST(Gradient, of_attention_with_grouped_heads) {
  Case c;
  const std::vector<Dim> kv = {{"B", 2}, {"S", 3}, {"J", 2}, {"A", 3}};
  const ValueId q = c.parameter("q", {{"B", 2}, {"S", 3}, {"H", 4}, {"A", 3}});
  c.check({c.add(Attention{}, {q, c.parameter("k", kv), c.parameter("v", kv)})[0]});
}

TEST(Gradient, of_embed) {
  Case c;
  c.check(c.add(Embed{}, {c.parameter("table", {{"V", 5}, {"D", 2}}), c.integers("ids", {{"T", 4}}, {3, 0, 3, 4})}));
}

TEST(Gradient, of_the_vocabulary_loss) {
  Case c;
  const ValueId z = c.parameter("z", {{"T", 3}, {"V", 4}}), target = c.integers("target", {{"T", 3}}, {2, 0, 3});
  const ValueId weight = c.data("weight", {{"T", 3}});
  c.fed(weight) = Array({3}, {0.5, 0, 0.25});
  const std::vector<ValueId> sums = c.add(ExpSumTarget{}, {z, c.add(RowMax{}, {z})[0], target});
  c.check(c.add(Nll{}, {sums[0], sums[1], weight}));
}

TEST(VocabularyLoss, is_the_cross_entropy) {
  Builder b{Mesh()};
  const ValueId z = b.leaf(LeafKind::parameter, "z", {{"T", 2}, {"V", 3}}),
                target =
                    b.leaf(LeafKind::data, "target", Type{.dims = {{"T", 2}}, .dtype = Dtype::integer, .grad = false});
  const ValueId weight = b.leaf(LeafKind::data, "weight", {{"T", 2}});
  const std::vector<ValueId> sums = b.add_all(ExpSumTarget{}, {z, b.add(RowMax{}, {z}), target});
  const ValueId loss = b.add(Nll{}, {sums[0], sums[1], weight});
  const Execution run = interpret(
      b.schedule(),
      {{z, {Array({2, 3}, {1, 2, 3, 0, 0, 0})}}, {target, {Array({2}, {0, 1})}}, {weight, {Array({2}, {0.5, 0.5})}}});
  EXPECT_NEAR(run.values[loss][0][0], 0.5 * (2.4076059644443806 + std::log(3.0)), 1e-12);
}

Data tokens(const std::vector<double>& mask) { return {.mask = mask}; }

// The gate alone: weights read by constants, choices fixed under a small step.
void expect_gate_gradient(const Route& route) {
  Case c;
  const ValueId logits = c.parameter("logits", {{"T", 8}, {"E", 4}}), mask = c.data("mask", {{"T", 8}});
  c.fed(mask) = Array({8}, {1, 1, 0, 1, 1, 1, 1, 1});
  std::vector<ValueId> operands = {logits, mask};
  if (route.gate->bias) operands.push_back(c.data("bias", {{"E", 4}}));
  if (route.draws()) operands.push_back(c.integers("step_key", {}, {12345}));
  c.check({c.add(route, operands)[0]});
}

TEST(Gradient, of_every_gate) {
  for (Normalize normalize : {Normalize::before, Normalize::after, Normalize::none}) {
    expect_gate_gradient({.normalize = normalize, .top_k = 2});
    expect_gate_gradient({.normalize = normalize, .drop = Drop::probs, .top_k = 3, .capacity = 2, .group = 4});
    expect_gate_gradient({.normalize = normalize, .drop = Drop::position, .top_k = 2, .capacity = 1, .group = 8});
    expect_gate_gradient({.normalize = normalize, .drop = Drop::rts, .top_k = 2, .capacity = 2, .group = 8});
    expect_gate_gradient({.gate = &topk_softmax_route,
                          .normalize = normalize,
                          .drop = Drop::probs,
                          .top_k = 3,
                          .capacity = 2,
                          .group = 4});
    expect_gate_gradient({.gate = &sigmoid_route,
                          .normalize = normalize,
                          .drop = Drop::probs,
                          .top_k = 2,
                          .capacity = 6,
                          .group = 8,
                          .rule = {.expert_groups = 2, .kept_groups = 1, .scaling = 2.5}});
  }
  expect_gate_gradient({.gate = &switch_route, .top_k = 1});
  expect_gate_gradient({.gate = &switch_route, .drop = Drop::probs, .top_k = 1, .capacity = 1, .group = 4});
  expect_gate_gradient({.gate = &switch_route, .top_k = 1, .rule = {.sample = Sample::gumbel}});
  for (Sample sample : {Sample::none, Sample::gumbel})
    expect_gate_gradient({.gate = &gshard_route,
                          .drop = Drop::position,
                          .top_k = 2,
                          .capacity = 3,
                          .group = 8,
                          .rule = {.sample = sample}});
  expect_gate_gradient({.gate = &expert_choice_route, .drop = Drop::position, .top_k = 4, .capacity = 2, .group = 4});
  expect_gate_gradient({.gate = &base_route, .top_k = 1, .group = 4});
}

TEST(Gradient, of_the_jitter_before_a_gate) {
  Case c;
  const ValueId x = c.parameter("x", {{"T", 3}, {"D", 4}});
  c.check({c.add(Jitter{.amount = 0.3}, {x, c.integers("step_key", {}, {77})})[0]});
}

TEST(Gradient, of_the_auxiliary_losses) {
  Case c;
  const ValueId logits = c.parameter("logits", {{"T", 6}, {"E", 4}}), mask = c.data("mask", {{"T", 6}});
  c.fed(mask) = Array({6}, {1, 1, 0, 1, 1, 1});
  const std::vector<ValueId> routes = c.add(Route{.top_k = 2}, {logits, mask}),
                             stats = c.add(GateStats{}, {logits, mask});
  const ValueId chosen = c.add(Load{.experts = 4}, {routes[1], routes[2]})[0], inverse = c.data("inverse", {}),
                share = c.data("share", {});
  c.fed(inverse)[0] = 0.2;
  c.fed(share)[0] = 0.75;
  c.check(c.add(Balance{.aux = 0.6, .z = 0.3, .top_k = 2}, {stats[0], chosen, stats[1], inverse, share}));
}

// Groups of three tokens, one of them padded throughout; sums and loads of each.
TEST(Gradient, of_the_auxiliary_losses_of_groups_of_tokens) {
  for (Score score : {Score::softmax, Score::sigmoid}) {
    Case c;
    const ValueId logits = c.parameter("logits", {{"T", 9}, {"E", 4}}), mask = c.data("mask", {{"T", 9}});
    c.fed(mask) = Array({9}, {1, 1, 0, 0, 0, 0, 1, 1, 1});
    const std::vector<ValueId> routes = c.add(Route{.top_k = 2}, {logits, mask}),
                               stats = c.add(GateStats{.group = 3, .score = score}, {logits, mask});
    const ValueId chosen = c.add(Load{.experts = 4, .group = 3}, {routes[1], routes[2]})[0],
                  inverse = c.data("inverse", {}), share = c.data("share", {});
    c.fed(inverse)[0] = 0.2;
    c.fed(share)[0] = 0.75;
    c.check(c.add(Balance{.aux = 0.6, .z = 0.3, .top_k = 2}, {stats[0], chosen, stats[1], inverse, share}));
  }
}

TEST(Gradient, of_a_noisy_gate_and_its_losses) {
  for (int64_t top_k : {1, 2, 4}) {
    Case c;
    const ValueId logits = c.parameter("logits", {{"T", 6}, {"E", 4}}),
                  spread = c.parameter("spread", {{"T", 6}, {"E", 4}}), mask = c.data("mask", {{"T", 6}}),
                  share = c.data("share", {});
    c.fed(mask) = Array({6}, {1, 1, 0, 1, 1, 1});
    c.fed(share)[0] = 0.75;
    const ValueId noisy = c.add(Noise{.stream = 1}, {logits, spread, c.integers("step_key", {}, {77})})[0];
    const std::vector<ValueId> stats = c.add(NoisyStats{.top_k = top_k}, {logits, spread, noisy, mask});
    c.check({c.add(Route{.gate = &topk_softmax_route, .top_k = top_k}, {noisy, mask})[0],
             c.add(Variation{.coef = 0.6}, {stats[0], stats[1], share})[0]});
  }
}

TEST(Gradient, of_rows_encoded_and_decoded_with_weights) {
  for (int64_t capacity : {0, 2}) {
    Case c;
    const Routing routing{.id = "r", .experts = 3, .top_k = 2, .capacity = capacity, .group = capacity ? 4 : 0};
    const std::vector<Dim> routes = {{"T", 4}, {"K", 2}};
    const ValueId idx = c.integers("idx", routes, {0, 2, 1, 0, -1, -1, 2, 1}),
                  slot = c.integers("slot", routes, {0, 0, 0, 1, -1, -1, 1, -1});
    const ValueId places = capacity ? c.add(Arrange{routing}, {idx, slot})[0] : c.add(Count{routing}, {idx, slot})[1];
    const ValueId x = c.parameter("x", {{"T", 4}, {"D", 3}}), w = c.parameter("w", routes),
                  v = c.parameter("v", routes);
    const ValueId rows = c.add(Activate{}, {c.add(Encode{routing}, {x, w, places})[0]})[0];
    c.check(c.add(Decode{routing}, {rows, v, places}));
  }
}

TEST(Gradient, of_the_whole_toy) {
  for (int64_t capacity : {0, 2}) {
    const Toy toy{.layers = 2,
                  .residual = Residual::yes,
                  .capacity = capacity,
                  .group = 4,
                  .drop = capacity ? Drop::probs : Drop::none};
    const Model model = build(toy);
    expect_gradients(model.schedule, model.loss, feed(model.schedule, tokens({1, 1, 0, 1})));
  }
}

}  // namespace
}  // namespace plait::oracle
