// An op from outside: typed, printed, differentiated, priced and run like any other.
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "extension/extension.h"
#include "passes/differentiate.h"
#include "passes/recompute.h"
#include "plan/cost.h"
#include "plan/memory.h"
#include "run/executor.h"
#include "run/external.h"
#include "schedule/testing/external.h"
#include "schedule/testing/interpret.h"
#include "schedule/text.h"
#include "wire/ranks.h"

namespace plait {
namespace {

using oracle::Array;
using testing::HasSubstr;

const std::vector<const ExternalOp*> kOps = {&extension::softcap, &extension::softcap_grad};

External softcap(double cap) { return external(extension::softcap, {{"cap", cap}}); }

// loss = sum_td weight * softcap(x w), tokens cut over the ranks; w the same on all.
struct Toy {
  Builder b;
  ValueId x, w, weight, product, capped, loss;

  explicit Toy(const Mesh& mesh) : b(mesh) {
    const Atoms all = mesh.atoms();
    const std::vector<Mark> stack = stack_of(Atoms(all.rbegin(), all.rend()));
    x = b.leaf(LeafKind::data, "x", {{"T", 8, stack}, {"D", 3}});
    w = b.leaf(LeafKind::parameter, "w", {{"D", 3}, {"F", 2}});
    weight = b.leaf(LeafKind::data, "weight", {{"T", 8, stack}, {"F", 2}});
    product = b.add(Einsum{{"T", "F"}}, {x, all.empty() ? w : b.enter(w, all)}, "product");
    capped = b.add(softcap(1.5), {product}, "capped");
    const ValueId sum = b.add(Einsum{}, {capped, weight}, "sum");
    loss = all.empty() ? sum : b.leave(sum, all);
    b.schedule().outputs = {loss};
  }

  Differentiated differentiated() const { return differentiate(b.schedule(), loss); }
};

Mesh four() { return Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2}); }

oracle::Feed feed(const Toy& toy, const Schedule& s) {
  oracle::Feed feed{{toy.x, {oracle::normal_array({8, 3}, "x", 1)}},
                    {toy.w, {oracle::normal_array({3, 2}, "w", 1)}},
                    {toy.weight, {oracle::normal_array({8, 2}, "weight", 1)}}};
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::seed) feed[leaf.value] = {Array({}, {1})};
  return feed;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(ExternalOp, is_typed_by_its_record) {
  Toy toy(four());
  EXPECT_EQ(toy.b.type(toy.capped), toy.b.type(toy.product));
  const ValueId partial = toy.b.add(
      Einsum{{"F"}}, {toy.weight, toy.b.leaf(LeafKind::data, "m", {{"T", 8, toy.b.type(toy.x).dims[0].stack}})});
  EXPECT_THAT(refusal([&] { toy.b.add(softcap(1), {partial}); }), HasSubstr("softcap is not linear"));
  External bare = softcap(1);
  bare.attributes.clear();
  EXPECT_THAT(refusal([&] { toy.b.add(bare, {toy.product}); }), HasSubstr("softcap takes other attributes"));
  EXPECT_THROW(external(extension::softcap, {{"lid", 1.0}}), ContractError);
  EXPECT_THROW(external(extension::softcap, {{"cap", "high"}}), ContractError);
}

TEST(ExternalOp, is_read_back_as_it_was_printed) {
  const Schedule s = Toy(four()).differentiated().schedule;
  const std::string text = print(s);
  EXPECT_THAT(text, HasSubstr("%capped = softcap(%product) cap=1.5 : real [T=8"));
  EXPECT_THAT(text, HasSubstr("softcap_grad(%product, %d_capped) cap=1.5"));
  EXPECT_EQ(print(parse_schedule(text, "schedule text", {.ops = kOps})), text);
  const Schedule again = parse_schedule(text, "schedule text", {.ops = kOps});
  for (size_t i = 0; i < s.steps.size(); ++i) EXPECT_TRUE(again.steps[i].op == s.steps[i].op) << i;
  EXPECT_THAT(refusal([&] { parse_schedule(text); }), HasSubstr("a known op, not softcap"));
  EXPECT_NE(Op(softcap(1)), Op(softcap(2)));
}

TEST(ExternalOp, has_a_name_of_its_own) {
  const auto named = [](std::string_view name) {
    ExternalOp op = extension::softcap;
    op.name = name;
    return op;
  };
  for (const char* taken : {"softcap", "einsum", "gather", "move"}) {
    const ExternalOp other = named(taken);
    const std::vector<const ExternalOp*> both = {&extension::softcap, &other};
    EXPECT_THAT(refusal([&] { expect_own_names(both); }), HasSubstr(std::string("op ") + taken));
    EXPECT_THAT(refusal([&] { parse_schedule("", "schedule text", {.ops = both}); }), HasSubstr("rename it"));
  }
  EXPECT_EQ(refusal([&] { expect_own_names(kOps); }), "");
}

TEST(ExternalOp, has_the_gradient_that_finite_differences_have) {
  const Toy toy(four());
  const Differentiated d = toy.differentiated();
  oracle::Feed fed = feed(toy, d.schedule);
  const auto at = [&](ValueId v) { return oracle::global(d.schedule, oracle::interpret(d.schedule, fed), v); };
  const Array gradient = at(d.gradients.at(toy.w));
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < gradient.size(); ++i) {
    double& w = fed[toy.w][0][i];
    const double kept = w;
    w = kept + kStep;
    const double up = at(toy.loss)[0];
    w = kept - kStep;
    const double down = at(toy.loss)[0];
    w = kept;
    EXPECT_GT(std::abs(gradient[i]), 1e-3);
    EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 1e-8);
  }
}

TEST(ExternalOp, without_a_gradient_is_refused_on_the_way_back) {
  Toy toy(Mesh{});
  Builder b = toy.b;
  const ValueId twice = b.add(external(extension::softcap_grad), {toy.capped, toy.weight});
  const ValueId loss = b.add(Einsum{}, {twice, toy.weight});
  EXPECT_THAT(refusal([&] { differentiate(b.schedule(), loss); }),
              HasSubstr("softcap_grad -> %softcap_grad has no transpose"));
}

TEST(ExternalOp, is_made_again_as_its_record_says) {
  const Toy toy(Mesh{});
  const Differentiated d = toy.differentiated();
  Builder b(d.schedule);
  const int n = d.num_forward;
  const auto again = [&](Recompute how) {
    return print(recompute(d.schedule, {.recompute = how, .num_forward = n, .blocks = {{0, n}}}));
  };
  EXPECT_THAT(again(Recompute::full), HasSubstr("%re_product = einsum"));
  EXPECT_THAT(again(Recompute::selective), testing::Not(HasSubstr("%re_product")));
}

TEST(ExternalOp, is_priced_by_its_streams) {
  const Toy toy(Mesh{});
  const Machine machine{.name = "simple", .flops = 1e6, .memory_bytes = 1e3, .start = 0, .levels = {{"node", 2}}};
  const Schedule& s = toy.b.schedule();
  const StepCost cost = step_costs(s, check(s), machine)[1];
  EXPECT_DOUBLE_EQ(cost.memory_bytes, 4. * 2 * 8 * 2);
  EXPECT_DOUBLE_EQ(cost.seconds, 5 * cost.memory_bytes / 1e3);
}

// What every rank holds of each value of a list, by the executor; and that the plan told its memory.
std::vector<oracle::PerRank> run(const Schedule& s, const oracle::Execution& want) {
  std::vector<oracle::PerRank> all(s.names.size(), oracle::PerRank(s.mesh.ranks()));
  wire::run_ranks({.ranks = s.mesh.ranks(), .timeout = wire::Seconds(20), .threads = 1},
                  [&](int rank, wire::World& world) {
                    Executor executor(s, {.rank = rank, .world = &world, .dtype = at::kDouble});
                    const auto tensor = [&](ValueId v) {
                      const Array& x = want.values[v][rank];
                      const at::Tensor t = at::empty(x.shape, at::kDouble);
                      std::ranges::copy(x.data, t.mutable_data_ptr<double>());
                      return t;
                    };
                    for (const Leaf& leaf : s.leaves)
                      if (leaf.kind == LeafKind::parameter) executor.bind(s.names[leaf.value], tensor(leaf.value));
                    executor.run([&](const std::string& leaf, int) { return tensor(s.find(leaf)); });
                    const MemoryPlan plan = plan_memory(s, executor.types(), {.rank = rank, .item = Item::all(8)});
                    EXPECT_EQ(executor.memory().total(), plan.peak.total());
                    for (ValueId v : s.outputs) {
                      const at::Tensor t = executor.value(v);
                      Array x(t.sizes().vec());
                      std::copy_n(t.const_data_ptr<double>(), t.numel(), x.data.begin());
                      all[v][rank] = x;
                    }
                  });
  return all;
}

// The loss and the gradient of w on a mesh.
std::vector<Array> outcome(const Mesh& mesh) {
  const Toy toy(mesh);
  Differentiated d = toy.differentiated();
  d.schedule.outputs = {toy.loss, d.gradients.at(toy.w)};
  const oracle::Execution want = oracle::interpret(d.schedule, feed(toy, d.schedule));
  const std::vector<oracle::PerRank> have = run(d.schedule, want);
  std::vector<Array> all;
  for (ValueId v : d.schedule.outputs) {
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      EXPECT_LT(oracle::max_difference(have[v][rank], want.values[v][rank]), 1e-14) << "rank " << rank;
    all.push_back(have[v][0]);
  }
  return all;
}

TEST(ExternalOp, gives_four_ranks_what_it_gives_one) {
  const std::vector<Array> one = outcome(Mesh{}), many = outcome(four());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_LT(oracle::max_difference(one[i], many[i]), 1e-14);
}

TEST(ExternalOp, without_a_kernel_or_a_loop_says_so) {
  ExternalOp bare = extension::softcap;
  bare.kernel = nullptr;
  bare.loop = nullptr;
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::data, "x", {{"T", 8}});
  b.add(external(bare), {x});
  EXPECT_THROW(Executor(b.schedule(), {.dtype = at::kDouble}), ContractError);
  EXPECT_THROW(oracle::interpret(b.schedule(), {{x, {Array(std::vector<int64_t>{8})}}}), ContractError);
}

}  // namespace
}  // namespace plait
