// A gate from outside src/: the top k logits, weighed by their softplus over the sum of it. Its record, its kernel and
// its plain loop stand here, and all that Plait does with a gate it does with this one.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "gates/all/kernel.h"
#include "gates/all/record.h"
#include "kernels/cpu/gate_rows.h"
#include "kernels/testing/oracle.h"
#include "one_step.h"
#include "schedule/builder.h"
#include "schedule/testing/interpret.h"
#include "schedule/testing/plain_route.h"
#include "schedule/text.h"

namespace plait {
namespace {

template <class T>
T softplus(T x) {
  return std::log1p(std::exp(-std::abs(x))) + std::max(x, T{0});
}

struct Softplus {
  template <class T>
  static void choose(const kernels::Rows<T>& rows, const kernels::Choice<T>& to) {
    const int64_t k = rows.options.top_k;
    for (int64_t t = 0; t < rows.tokens; ++t) {
      if (!kernels::real(rows.mask, t)) continue;
      kernels::largest(rows.row(t), rows.experts, k, to.idx + t * k);
      for (int64_t r = t * k; r < (t + 1) * k; ++r) to.score[r] = softplus(rows.row(t)[to.idx[r]]);
    }
  }

  template <class T>
  static T sum(const kernels::Token<T>& token) {
    T sum = 0;
    for (int64_t k = 0; k < token.top_k; ++k)
      if (token.idx[k] >= 0) sum += softplus(token.logits[token.idx[k]]);
    return sum;
  }

  template <class T>
  static void weigh(const kernels::Token<T>& token, const kernels::RouteOptions&, T* weight) {
    const T all = sum(token);
    for (int64_t k = 0; k < token.top_k; ++k)
      weight[k] = token.slot[k] < 0 ? T{0} : softplus(token.logits[token.idx[k]]) / all;
  }

  template <class T>
  static void grad(const kernels::Token<T>& token, const kernels::RouteOptions& options,
                   const kernels::TokenGrad<T>& grad) {
    const T all = sum(token);
    std::vector<T> weight(token.top_k);
    weigh(token, options, weight.data());
    T mean = 0;
    for (int64_t k = 0; k < token.top_k; ++k) mean += weight[k] * grad.dweight[k];
    for (int64_t k = 0; k < token.top_k; ++k) {
      const T own = token.slot[k] < 0 ? T{0} : grad.dweight[k];
      grad.dlogits[token.idx[k]] = kernels::sigmoid(token.logits[token.idx[k]]) / all * (own - mean);
    }
  }
};

namespace plain {

using namespace oracle;

void choose(const Call& c, const Route& op, int64_t first, int64_t last) {
  choose_first(c, op, first, last, [&](int64_t t) { return ranked(row(c.x(0), t)); });
}

std::vector<double> scores(const PlainChoice& of, int64_t token) {
  std::vector<double> s = row(of.logits, token);
  for (double& x : s) x = std::log(1 + std::exp(x));
  return s;
}

std::vector<double> pull(const std::vector<double>& s, const std::vector<double>& ds) {
  std::vector<double> dlogits;
  for (size_t e = 0; e < s.size(); ++e) dlogits.push_back((1 - std::exp(-s[e])) * ds[e]);
  return dlogits;
}

Over over(const Route&) { return Over::chosen; }

}  // namespace plain

constexpr kernels::RouteKernel kKernel = kernels::route_kernel<Softplus>();
constexpr oracle::PlainRoute kPlain{plain::choose, plain::scores, plain::pull, plain::over};
constexpr RouteSpec kRoute{.name = "softplus", .kernel = &kKernel, .plain = &kPlain};
constexpr GateSpec kGate{.name = "softplus",
                         .help = "top-k of softplus",
                         .route = &kRoute,
                         .keys = {"moe.drop", "moe.aux_coef", "moe.aux_scope", "moe.z_coef"},
                         .loss = AuxLoss::means};

constexpr int64_t kTokens = 8, kExperts = 4;

Route over_capacity(Drop drop) { return {.gate = &kRoute, .drop = drop, .top_k = 2, .capacity = 3, .group = 4}; }

kernels::RouteOptions options_of(const Route& r) {
  return {.gate = r.gate, .drop = r.drop, .top_k = r.top_k, .capacity = r.capacity, .group = r.group};
}

at::Tensor tokens_mask() { return kernels::integers({kTokens}, {1, 1, 1, 0, 1, 1, 1, 1}); }

kernels::Routes routed(const at::Tensor& logits, const Route& route) {
  const std::vector<int64_t> shape = {kTokens, route.top_k};
  kernels::Routes out{kernels::stale(shape, at::kDouble), kernels::stale(shape, at::kLong),
                      kernels::stale(shape, at::kLong)};
  kernels::route(logits, tokens_mask(), options_of(route), out);
  return out;
}

oracle::Array array(const at::Tensor& x) {
  const at::Tensor numbers = x.to(at::kDouble).contiguous();
  const double* p = numbers.const_data_ptr<double>();
  return {x.sizes().vec(), {p, p + x.numel()}};
}

struct List {
  Schedule schedule;
  std::vector<ValueId> routes;
  oracle::Feed feed;
};

List list_of(const Route& route, const at::Tensor& logits) {
  Builder b{Mesh()};
  const ValueId x = b.leaf(LeafKind::parameter, "logits", std::vector<Dim>{{"T", kTokens}, {"E", kExperts}}),
                mask = b.leaf(LeafKind::data, "mask", std::vector<Dim>{{"T", kTokens}});
  List list{.routes = b.add_all(route, {x, mask}, "route"),
            .feed = {{x, {array(logits)}}, {mask, {array(tokens_mask())}}}};
  list.schedule = b.take();
  return list;
}

TEST(OutsideGate, computes_what_its_plain_loop_computes) {
  const at::Tensor logits = kernels::golden_logits(at::kDouble);
  for (Drop drop : {Drop::probs, Drop::position}) {
    const kernels::Routes mine = routed(logits, over_capacity(drop));
    const List list = list_of(over_capacity(drop), logits);
    const oracle::Execution run = interpret(list.schedule, list.feed);
    const at::Tensor* results[] = {&mine.weight_TK, &mine.idx_TK, &mine.slot_TK};
    for (size_t i = 0; i < 3; ++i) {
      const oracle::Array& plain = run.values[list.routes[i]][0];
      for (int64_t r = 0; r < plain.size(); ++r)
        EXPECT_NEAR(array(*results[i])[r], plain[r], 1e-12) << "result " << i << ", route " << r;
    }
    EXPECT_TRUE(mine.slot_TK.eq(-1).logical_and(mine.idx_TK.ge(0)).any().item<bool>()) << "nothing was dropped";
  }
}

TEST(OutsideGate, has_the_gradient_of_differences) {
  at::Tensor logits = kernels::golden_logits(at::kDouble), dlogits = kernels::stale({kTokens, kExperts}, at::kDouble);
  const Route route = over_capacity(Drop::probs);
  const at::Tensor w = kernels::random({kTokens, route.top_k}, at::kDouble);
  const kernels::Routes routes = routed(logits, route);
  kernels::route_grad({logits, routes.idx_TK, routes.slot_TK, w}, options_of(route), dlogits);
  EXPECT_GT(dlogits.abs().max().item<double>(), 1e-3);
  kernels::expect_gradient(logits, dlogits, [&] { return kernels::inner(routed(logits, route).weight_TK, w); });
}

TEST(OutsideGate, is_named_in_lists_that_are_read_back_by_who_knows_it) {
  const Schedule list = list_of(over_capacity(Drop::probs), kernels::golden_logits()).schedule;
  const std::string text = print(list);
  EXPECT_NE(text.find("gate=softplus"), std::string::npos) << text;
  Gates gates = built_in_gates();
  gates.push_back(&kGate);
  EXPECT_EQ(parse_schedule(text, "schedule text", {.gates = gates}).steps, list.steps);
  EXPECT_THROW(parse_schedule(text), InputError);
}

TEST(OutsideGate, trains_on_four_ranks_as_on_one) {
  for (Family family : {Family::ted, Family::dtd, Family::s1, Family::s2, Family::sharded}) {
    ModelSizes sizes = small_sizes();
    sizes.gate = &kGate;
    sizes.family = family;
    sizes.aux_coef = 0.3;
    sizes.z_coef = 0.1;
    StepCase c{.sizes = sizes, .parameters = random_parameters(sizes), .micro = {random_tokens(sizes)}};
    const StepOutcome one = run_steps(c);
    c.mesh = {.ranks = 4, .tp = 2, .esp = 2, .ep = 2};
    const StepOutcome four = run_steps(c);
    EXPECT_NEAR(four.nll[0], one.nll[0], 1e-12);
    EXPECT_NEAR(four.aux, one.aux, 1e-12);
    EXPECT_EQ(four.chosen, one.chosen);
    EXPECT_LT(largest_difference(four.gradients, one.gradients), 1e-10);
    EXPECT_TRUE(four.replicas.empty());
  }
}

}  // namespace
}  // namespace plait
