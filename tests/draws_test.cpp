// What is drawn in training has the distribution that is promised, at every layout: frequencies against it, on keys
// that never change, so a test passes always or never. And layers, steps and micro-batches draw other numbers.
#include "schedule/draws.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>

#include "checkpoint/gathered.h"
#include "corpus.h"
#include "gates/gshard/record.h"
#include "gates/switch/record.h"
#include "schedule/builder.h"
#include "train/loop.h"
#include "wire/ranks.h"

namespace plait {
namespace {

using Numbers = std::vector<double>;

// The statistic that with this number of free counts chance exceeds once in a million times (Wilson and Hilferty 1931).
double far_off(double free) {
  const double spread = 2 / (9 * free);
  return free * std::pow(1 - spread + 4.75 * std::sqrt(spread), 3);
}

// Pearson's test that `counts` were drawn with these probabilities.
void expect_drawn(const Numbers& counts, const Numbers& probabilities, const std::string& what) {
  ASSERT_EQ(counts.size(), probabilities.size());
  double all = 0, statistic = 0;
  for (double n : counts) all += n;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = all * probabilities[i];
    ASSERT_GE(expected, 5) << "too few draws for a test";
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(statistic, far_off(static_cast<double>(counts.size() - 1)))
      << what << ": " << fmt::format("{:g}", fmt::join(counts, " ")) << " of " << all;
}

Numbers equal_shares(size_t n) { return Numbers(n, 1.0 / static_cast<double>(n)); }

// What is drawn twice at once is drawn apart.
Numbers pairs(const Numbers& a, const Numbers& b) {
  Numbers both;
  for (double x : a)
    for (double y : b) both.push_back(x * y);
  return both;
}

void count_pair(Numbers& counts, int64_t a, int64_t b, size_t kinds) {
  ++counts[static_cast<size_t>(a) * kinds + static_cast<size_t>(b)];
}

// A list over tokens that are cut over all ranks, fed with whole tensors.
struct DrawList {
  Builder b;
  std::map<std::string, at::Tensor> data = {};
  int64_t key = 1;

  ValueId tokens(const std::string& name, const at::Tensor& whole) {
    data[name] = whole;
    Type type{.holds = std::vector<Hold>(b.mesh().num_atoms(), Hold::S),
              .dtype = whole.scalar_type() == at::kLong ? Dtype::integer : Dtype::real,
              .grad = false};
    for (int64_t d = 0; d < whole.dim(); ++d)
      type.dims.push_back({d == 0 ? "T" : d == 1 && name == "x" ? "D" : "E", whole.size(d)});
    type.dims[0].stack = stack_of(b.mesh().axis(Axis::dp) + b.mesh().axis(Axis::tp));
    return b.leaf(LeafKind::data, name, type);
  }

  ValueId step_key() {
    const ValueId known = b.schedule().find("step_key");
    if (known >= 0) return known;
    const std::vector<Hold> everywhere(b.mesh().num_atoms(), Hold::I);
    return b.leaf(LeafKind::data, "step_key", Type{.holds = everywhere, .dtype = Dtype::integer, .grad = false});
  }
};

// The whole of these values.
std::vector<at::Tensor> performed(DrawList& draw, const std::vector<ValueId>& wanted) {
  const Schedule& s = draw.b.schedule();
  std::vector<std::vector<at::Tensor>> parts(wanted.size(), std::vector<at::Tensor>(s.mesh.ranks()));
  std::mutex mutex;
  wire::run_ranks({.ranks = s.mesh.ranks()}, [&](int rank, wire::World& world) {
    Executor executor(s, {rank, &world, at::kDouble}, {wanted});
    executor.run([&](const std::string& leaf, int) {
      if (leaf == "step_key") return at::full({}, draw.key, at::kLong);
      const Range own = local_range(s.mesh, s.leaf(s.find(leaf))->type.dims[0], rank);
      return draw.data.at(leaf).narrow(0, own.first, own.size).contiguous();
    });
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < wanted.size(); ++i) parts[i][rank] = executor.value(wanted[i]).clone();
  });
  const Types types = check(s);
  std::vector<at::Tensor> wholes;
  for (size_t i = 0; i < wanted.size(); ++i) wholes.push_back(gathered(s.mesh, types[wanted[i]], parts[i]));
  return wholes;
}

class Frequencies : public testing::TestWithParam<MeshSize> {
 protected:
  static constexpr int64_t kTokens = 24000;

  DrawList draw_on(const MeshSize& mesh) { return {.b = Builder(Mesh(mesh))}; }

  // What `write` gives at this layout, which is what it gives on one rank.
  template <class Write>
  std::vector<at::Tensor> drawn(Write write, int64_t key = 1) {
    DrawList here = draw_on(GetParam()), one = draw_on({});
    here.key = one.key = key;
    const std::vector<ValueId> values = write(here);
    const std::vector<at::Tensor> mine = performed(here, values), reference = performed(one, write(one));
    for (size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(mine[i].equal(reference[i])) << "another draw at this layout";
    return mine;
  }
};

INSTANTIATE_TEST_SUITE_P(Layouts, Frequencies,
                         testing::Values(MeshSize{}, MeshSize{.ranks = 4, .tp = 1, .esp = 1, .ep = 2},
                                         MeshSize{.ranks = 4, .tp = 2, .esp = 2, .ep = 2},
                                         MeshSize{.ranks = 4, .tp = 4, .esp = 2, .ep = 1}),
                         [](const auto& info) { return fmt::format("ranks{}_tp{}", info.param.ranks, info.param.tp); });

at::Tensor alike(int64_t tokens, const Numbers& row) {
  const at::Tensor x = at::empty({tokens, static_cast<int64_t>(row.size())}, at::kDouble);
  for (int64_t t = 0; t < tokens; ++t)
    std::copy(row.begin(), row.end(), x.mutable_data_ptr<double>() + t * static_cast<int64_t>(row.size()));
  return x;
}

Numbers logs(const Numbers& p) {
  Numbers all;
  for (double x : p) all.push_back(std::log(x));
  return all;
}

// idx of routes in layers 0 and 1.
std::vector<ValueId> two_layers(DrawList& draw, Route route, const at::Tensor& logits) {
  const ValueId l = draw.tokens("logits", logits), m = draw.tokens("mask", at::ones({logits.size(0)}, at::kLong));
  std::vector<ValueId> idx;
  for (int64_t layer : {0, 1}) {
    route.rule.stream = layer;
    idx.push_back(draw.b.add_all(route, {l, m, draw.step_key()}, "route")[1]);
  }
  return idx;
}

// Choice `column` of every token has probabilities p; those of two tokens, of two layers and of two steps are apart.
void expect_choices(const std::vector<at::Tensor>& now, const std::vector<at::Tensor>& later, int64_t column,
                    const Numbers& p) {
  const int64_t tokens = now[0].size(0);
  const auto at = [&](const at::Tensor& idx_TK, int64_t t) {
    return idx_TK.const_data_ptr<int64_t>()[t * idx_TK.size(1) + column];
  };
  Numbers own(p.size()), next(p.size() * p.size()), layer = next, step = next;
  for (int64_t t = 0; t < tokens; ++t) {
    ++own[static_cast<size_t>(at(now[0], t))];
    if (t % 2) count_pair(next, at(now[0], t - 1), at(now[0], t), p.size());
    count_pair(layer, at(now[0], t), at(now[1], t), p.size());
    count_pair(step, at(now[0], t), at(later[0], t), p.size());
  }
  expect_drawn(own, p, "choices");
  expect_drawn(next, pairs(p, p), "choices of two tokens");
  expect_drawn(layer, pairs(p, p), "choices of two layers");
  expect_drawn(step, pairs(p, p), "choices of two steps");
}

TEST_P(Frequencies, of_the_switch_gate_are_by_its_softmax) {
  const Numbers p = {0.05, 0.1, 0.15, 0.3, 0.4};
  const Route route{
      .gate = &switch_route, .normalize = Normalize::none, .top_k = 1, .rule = {.sample = Sample::gumbel}};
  const auto write = [&](DrawList& draw) { return two_layers(draw, route, alike(kTokens, logs(p))); };
  expect_choices(drawn(write), drawn(write, 2), 0, p);
}

// The first choice is no draw: the second is one among the other experts.
TEST_P(Frequencies, of_gshards_second_expert_are_by_the_softmax_of_the_others) {
  const Route route{.gate = &gshard_route, .top_k = 2, .rule = {.sample = Sample::gumbel}};
  const auto write = [&](DrawList& draw) {
    return two_layers(draw, route, alike(kTokens, logs({0.06, 0.12, 0.18, 0.24, 0.4})));
  };
  const std::vector<at::Tensor> now = drawn(write), later = drawn(write, 2);
  EXPECT_TRUE(now[0].select(1, 0).eq(4).all().item<bool>());
  EXPECT_TRUE(now[0].select(1, 1).ne(4).all().item<bool>());
  expect_choices(now, later, 1, {0.1, 0.2, 0.3, 0.4});
}

double phi(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

// (noisy - logit) / softplus(spread) is normal: its place among equal shares of the distribution.
TEST_P(Frequencies, of_noise_are_normal_times_the_softplus_of_the_spread) {
  const Numbers logits = {1, -2, 0.5}, spread = {-1, 0, 2};
  const auto write = [&](DrawList& draw) {
    const ValueId l = draw.tokens("logits", alike(kTokens, logits)), s = draw.tokens("spread", alike(kTokens, spread));
    return std::vector<ValueId>{draw.b.add(Noise{0}, {l, s, draw.step_key()}),
                                draw.b.add(Noise{1}, {l, s, draw.step_key()})};
  };
  const std::vector<at::Tensor> noisy = drawn(write);
  constexpr size_t kShares = 20, kCoarse = 5;
  std::vector<Numbers> of_expert(3, Numbers(kShares));
  Numbers experts(kCoarse * kCoarse), tokens = experts, layers = experts;
  const auto place = [&](const at::Tensor& x, int64_t t, size_t e) {
    const double over = x.const_data_ptr<double>()[t * 3 + static_cast<int64_t>(e)] - logits[e];
    return std::min(phi(over / std::log1p(std::exp(spread[e]))), 1 - 1e-12);
  };
  const auto coarse = [&](const at::Tensor& x, int64_t t, size_t e) {
    return static_cast<int64_t>(place(x, t, e) * kCoarse);
  };
  for (int64_t t = 0; t < kTokens; ++t) {
    for (size_t e = 0; e < 3; ++e) ++of_expert[e][static_cast<size_t>(place(noisy[0], t, e) * kShares)];
    count_pair(experts, coarse(noisy[0], t, 0), coarse(noisy[0], t, 1), kCoarse);
    if (t % 2) count_pair(tokens, coarse(noisy[0], t - 1, 2), coarse(noisy[0], t, 2), kCoarse);
    count_pair(layers, coarse(noisy[0], t, 1), coarse(noisy[1], t, 1), kCoarse);
  }
  for (const Numbers& counts : of_expert) expect_drawn(counts, equal_shares(kShares), "noise");
  expect_drawn(experts, equal_shares(experts.size()), "noise of two experts");
  expect_drawn(tokens, equal_shares(tokens.size()), "noise of two tokens");
  expect_drawn(layers, equal_shares(layers.size()), "noise of two layers");
}

// Of the four tokens of a group, all of which want both experts, each expert keeps two: any two, whichever the other
// keeps.
TEST_P(Frequencies, of_random_priorities_keep_every_subset_alike) {
  const Route route{.drop = Drop::rts, .top_k = 2, .capacity = 2, .group = 4};
  const auto write = [&](DrawList& draw) {
    const ValueId l = draw.tokens("logits", alike(kTokens, {1, 0})),
                  m = draw.tokens("mask", at::ones({kTokens}, at::kLong));
    std::vector<ValueId> slots;
    for (int64_t layer : {0, 1}) {
      Route of_layer = route;
      of_layer.rule.stream = layer;
      slots.push_back(draw.b.add_all(of_layer, {l, m, draw.step_key()}, "route")[2]);
    }
    return slots;
  };
  const std::vector<at::Tensor> slots = drawn(write);
  // Which two of a group's tokens an expert keeps: 0 to 5.
  const auto kept = [&](const at::Tensor& slot_TK, int64_t group, int64_t expert) {
    int code = 0;
    for (int64_t t = 0; t < 4; ++t)
      if (slot_TK.const_data_ptr<int64_t>()[(group * 4 + t) * 2 + expert] >= 0) code |= 1 << t;
    const std::map<int, int64_t> subsets = {{3, 0}, {5, 1}, {6, 2}, {9, 3}, {10, 4}, {12, 5}};
    return subsets.at(code);
  };
  Numbers experts(36), layers(36), groups(36);
  for (int64_t g = 0; g < kTokens / 4; ++g) {
    count_pair(experts, kept(slots[0], g, 0), kept(slots[0], g, 1), 6);
    count_pair(layers, kept(slots[0], g, 0), kept(slots[1], g, 0), 6);
    if (g % 2) count_pair(groups, kept(slots[0], g - 1, 1), kept(slots[0], g, 1), 6);
  }
  expect_drawn(experts, equal_shares(36), "what two experts keep");
  expect_drawn(layers, equal_shares(36), "what is kept in two layers");
  expect_drawn(groups, equal_shares(36), "what two groups keep");
}

TEST_P(Frequencies, of_jitter_are_uniform_between_its_bounds) {
  constexpr double kAmount = 0.2;
  const auto write = [&](DrawList& draw) {
    const ValueId x = draw.tokens("x", alike(kTokens, {1, -2, 0.5}));
    return std::vector<ValueId>{draw.b.add(Jitter{kAmount, 0}, {x, draw.step_key()}),
                                draw.b.add(Jitter{kAmount, 1}, {x, draw.step_key()})};
  };
  const std::vector<at::Tensor> y = drawn(write);
  const Numbers x = {1, -2, 0.5};
  const auto place = [&](size_t layer, int64_t t, size_t d) {
    const double factor = y[layer].const_data_ptr<double>()[t * 3 + static_cast<int64_t>(d)] / x[d];
    const double u = (factor - (1 - kAmount)) / (2 * kAmount);
    EXPECT_TRUE(u >= 0 && u <= 1) << factor;
    return std::min(u, 1 - 1e-12);
  };
  constexpr size_t kShares = 20, kCoarse = 5;
  Numbers all(kShares), columns(kCoarse * kCoarse), tokens = columns, layers = columns;
  const auto coarse = [&](size_t layer, int64_t t, size_t d) {
    return static_cast<int64_t>(place(layer, t, d) * kCoarse);
  };
  for (int64_t t = 0; t < kTokens; ++t) {
    for (size_t d = 0; d < 3; ++d) ++all[static_cast<size_t>(place(0, t, d) * kShares)];
    count_pair(columns, coarse(0, t, 0), coarse(0, t, 2), kCoarse);
    if (t % 2) count_pair(tokens, coarse(0, t - 1, 1), coarse(0, t, 1), kCoarse);
    count_pair(layers, coarse(0, t, 1), coarse(1, t, 1), kCoarse);
  }
  expect_drawn(all, equal_shares(kShares), "jitter");
  expect_drawn(columns, equal_shares(columns.size()), "jitter of two columns");
  expect_drawn(tokens, equal_shares(tokens.size()), "jitter of two tokens");
  expect_drawn(layers, equal_shares(layers.size()), "jitter of two layers");
}

// Purposes too: one key gives priorities, choices, jitter and noise that know nothing of each other.
TEST(DrawKeys, are_others_for_every_step_layer_and_purpose) {
  std::set<uint64_t> keys;
  size_t asked = 0;
  for (int64_t step_key : {0, 1, 2})
    for (int64_t layer : {0, 1, 2})
      for (Draw purpose : {Draw::priority, Draw::sample, Draw::jitter, Draw::noise})
        keys.insert(draw_key(step_key, layer, purpose)), ++asked;
  EXPECT_EQ(keys.size(), asked);
}

// Every layer of a run has a stream of its own, every micro-batch of it a key.
TEST(DrawKeys, of_a_run_are_others_for_every_layer_micro_batch_step_and_seed) {
  const data::Corpus corpus = random_corpus(4000);
  std::set<int64_t> keys, streams;
  for (const char* seed : {"1", "2"}) {
    const Config config = ready_config(
        "", std::vector<std::string>{"model.hidden_size=16", "model.num_hidden_layers=2", "model.intermediate_size=8",
                                     "train.seq_length=8", "train.batch_size=6", "train.micro_batch_size=2",
                                     "moe.jitter=0.1", fmt::format("train.seed={}", seed)});
    Trainer trainer(config, run_shape(config), corpus, {});
    const Schedule& s = trainer.executor().schedule();
    trainer.observe([&](const Span& span) {
      const Jitter* op = as<Jitter>(s.steps[static_cast<size_t>(span.step)].op);
      if (!op) return;
      streams.insert(op->stream);
      keys.insert(trainer.executor().value(s.find("step_key")).item<int64_t>());
    });
    for (int step = 0; step < 2; ++step) trainer.step(step, 1e-3);
  }
  EXPECT_EQ(streams.size(), 2u);
  EXPECT_EQ(keys.size(), 2u * 2 * 3) << "seeds, steps, micro-batches";
}

}  // namespace
}  // namespace plait
