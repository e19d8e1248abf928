// The golden vectors of the gates: what DeepSpeed's own gating code gives in float32 on `golden_logits`, row by row,
// and what its own test of the top-k gate expects.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "gates/all/kernel.h"
#include "gates/gshard/record.h"
#include "gates/switch/record.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

// Of the three tokens that want expert 2 the last has the least priority, as in the golden run.
constexpr Draws kPriority{.key = 38, .columns = 4};

using Integers = std::vector<int64_t>;
using Numbers = std::vector<double>;

// One choice of all tokens: r1, r2 or r3. idx -1: dropped. An empty list is not compared.
struct Row {
  Integers idx, slot;
  Numbers weight;
};

struct Golden {
  std::string name;
  RouteOptions options;
  CapacityOptions room;  // factor 0: no drops
  int64_t capacity = 0;
  double aux = 0;
  Integers counts;
  std::vector<Row> rows;
};

Routes routed(const at::Tensor& logits, const RouteOptions& options, const at::Tensor& mask = {}) {
  int64_t tokens = logits.size(0), k = options.top_k;
  Routes out{stale({tokens, k}, logits.scalar_type()), stale({tokens, k}, at::kLong), stale({tokens, k}, at::kLong)};
  route(logits, mask, options, out, {.priority = kPriority});
  return out;
}

Integers choice(const at::Tensor& x_TK, int64_t k) { return values(x_TK.select(1, k).contiguous()); }

at::Tensor load_of(const at::Tensor& idx_TK) {
  at::Tensor load = stale({4}, at::kFloat);
  expert_load(idx_TK, load);
  return load;
}

// Of the first `choices` of each token.
double aux_loss(const at::Tensor& logits, const at::Tensor& idx_TK, int64_t choices, const at::Tensor& mask = {}) {
  const int64_t tokens = mask.defined() ? mask.sum().item<int64_t>() : logits.size(0);
  GateStats stats{stale({4}, logits.scalar_type()), stale({}, logits.scalar_type())};
  gate_stats(logits, mask, stats);
  const double n = static_cast<double>(tokens);
  return 4 / static_cast<double>(choices) * inner(stats.psum_E, load_of(idx_TK.narrow(1, 0, choices).contiguous())) /
         n / n;
}

const Integers kFirst = {3, 2, 3, 0, 1, 2, 1, 2}, kSecond = {1, 0, 1, 2, 0, 1, 0, 1}, kThird = {2, 3, 0, 1, 3, 3, 3, 3};
const Numbers kSwitchWeights = {.459942, .331865, .341683, .424628, .359018, .435989, .376348, .395718};

RouteOptions switch_with(Drop drop) { return {.gate = &switch_route, .drop = drop, .top_k = 1, .group = 8}; }

const std::vector<Golden> kGolden = {
    {"top1_cf1_rts",
     switch_with(Drop::rts),
     {1, 0},
     2,
     1.0102780,
     {1, 2, 3, 2},
     {{{3, 2, 3, 0, 1, 2, 1, -1},
       {0, 0, 1, 0, 0, 1, 1, 0},
       {.459942, .331865, .341683, .424628, .359018, .435989, .376348, 0}}}},
    {"top1_cf2",
     switch_with(Drop::probs),
     {2, 0},
     4,
     1.0102780,
     {1, 2, 3, 2},
     {{kFirst, {0, 0, 1, 0, 0, 1, 1, 2}, kSwitchWeights}}},
    {"top1_without_drops",
     {.gate = &switch_route, .top_k = 1},
     {0, 0},
     3,
     1.0102780,
     {1, 2, 3, 2},
     {{kFirst, {0, 0, 1, 0, 0, 1, 1, 2}, kSwitchWeights}}},
    {"top2_cf_half",
     {.gate = &gshard_route, .drop = Drop::position, .group = 8},
     {.5, 0},
     2,
     1.0102780,
     {4, 6, 4, 2},
     {{{3, 2, 3, 0, 1, 2, 1, -1}, {0, 0, 1, 0, 0, 1, 1, 0}, {1, .518492, 1, 1, 1, 1, 1, 0}},
      {{-1, 0, -1, -1, -1, -1, -1, -1}, {0, 1, 0, 0, 0, 0, 0, 0}, {0, .481508, 0, 0, 0, 0, 0, 0}}}},
    {"top2_cf1",
     {.gate = &gshard_route, .drop = Drop::position, .group = 8},
     {1, 0},
     4,
     1.0102780,
     {4, 6, 4, 2},
     {{kFirst, {0, 0, 1, 0, 0, 1, 1, 2}, {.639686, .518492, .518492, .604918, .571262, 1, .509249, 1}},
      {{1, 0, 1, 2, 0, -1, 0, -1},
       {2, 1, 3, 3, 2, 0, 3, 0},
       {.360314, .481508, .481508, .395082, .428739, 0, .490751, 0}}}},
    {"top3_cf_half_probs",
     {.drop = Drop::probs, .top_k = 3, .group = 8},
     {.5, 0},
     3,
     1.0061486,
     {5, 7, 5, 7},
     {{kFirst, {0, 0, 1, 1, 0, 1, 1, 2}, {1, .518492, 1, 1, .604918, 1, .509249, .509249}},
      {{-1, 0, -1, -1, -1, -1, 0, 1}, {0, 0, 0, 0, 0, 0, 2, 2}, {0, .481508, 0, 0, 0, 0, .490751, .490751}},
      {{-1, -1, -1, -1, 3, -1, -1, -1}, {0, 0, 0, 0, 2, 0, 0, 0}, {0, 0, 0, 0, .395082, 0, 0, 0}}}},
    {"top3_cf_half_position",
     {.drop = Drop::position, .top_k = 3, .group = 8},
     {.5, 0},
     3,
     1.0061486,
     {5, 7, 5, 7},
     {{{3, 2, 3, 0, -1, -1, -1, -1}, {0, 1, 2, 2, 0, 0, 0, 0}, {.521435, .390921, .404616, .491434, 0, 0, 0, 0}},
      {{1, 0, 1, 2, -1, -1, -1, -1}, {0, 0, 1, 2, 0, 0, 0, 0}, {.293708, .363037, .375755, .320963, 0, 0, 0, 0}},
      {{2, 3, 0, 1, -1, -1, -1, -1}, {0, 1, 1, 2, 0, 0, 0, 0}, {.184857, .246043, .219629, .187603, 0, 0, 0, 0}}}},
    {"top3_without_drops",
     {.top_k = 3},
     {0, 0},
     7,
     1.0061486,
     {5, 7, 5, 7},
     {{kFirst, {0, 1, 2, 2, 3, 3, 5, 4}, {.521435, .390921, .404616, .491434, .416038, .468986, .423763, .442286}},
      {kSecond, {0, 0, 1, 2, 3, 4, 4, 6}, {}},
      {kThird, {0, 1, 1, 2, 3, 4, 5, 6}, {}}}},
};

class GoldenRow : public testing::TestWithParam<Golden> {};

TEST_P(GoldenRow, is_met_in_every_row) {
  const Golden& g = GetParam();
  RouteOptions options = g.options;
  if (g.room.factor > 0) {
    options.capacity = capacity(8, 4, options.top_k, g.room);
    EXPECT_EQ(options.capacity, g.capacity);
  }
  const Routes routes = routed(golden_logits(), options);
  for (size_t k = 0; k < g.rows.size(); ++k) {
    const Row& row = g.rows[k];
    const Integers idx = choice(routes.idx_TK, static_cast<int64_t>(k)),
                   slot = choice(routes.slot_TK, static_cast<int64_t>(k));
    for (size_t t = 0; t < 8; ++t) {
      EXPECT_EQ(slot[t] < 0 ? -1 : idx[t], row.idx[t]) << "choice " << k << " of token " << t;
      if (row.idx[t] >= 0) EXPECT_EQ(slot[t], row.slot[t]) << "choice " << k << " of token " << t;
    }
    if (!row.weight.empty())
      expect_close(routes.weight_TK.select(1, static_cast<int64_t>(k)), numbers({8}, row.weight), 1e-6);
  }
  expect_same_bits(load_of(routes.idx_TK), numbers({4}, Numbers(g.counts.begin(), g.counts.end())));
  EXPECT_NEAR(aux_loss(golden_logits(), routes.idx_TK, options.gate == &gshard_route ? 1 : options.top_k), g.aux, 1e-6);
  if (g.room.factor == 0) EXPECT_EQ(std::ranges::max(values(routes.slot_TK)) + 1, g.capacity) << "of the largest count";
}

INSTANTIATE_TEST_SUITE_P(Gate, GoldenRow, testing::ValuesIn(kGolden), [](const auto& info) { return info.param.name; });

TEST(GoldenGate, probabilities) {
  at::Tensor p = stale({8, 4}, at::kFloat);
  for (int64_t e = 0; e < 4; ++e)
    for (int64_t t = 0; t < 8; ++t) {
      GateStats one{stale({4}, at::kFloat), stale({}, at::kFloat)};
      gate_stats(golden_logits().narrow(0, t, 1).contiguous(), {}, one);
      p[t][e] = one.psum_E[e];
    }
  expect_close(p, numbers({8, 4}, {.117931, .25907,  .163057, .459942, .308194, .151068, .331865, .208873,
                                   .185468, .317311, .155537, .341683, .424628, .1621,   .277332, .13594,
                                   .269447, .359018, .137054, .234481, .070359, .327215, .435989, .166437,
                                   .362678, .376348, .11189,  .149085, .105288, .381344, .395718, .117649}),
               1e-6);
}

// DeepSpeed counts unused tokens in the means; padding is left out of them here.
TEST(GoldenGate, padding_is_left_out_of_routes_and_statistics) {
  at::Tensor mask = integers({8}, {1, 1, 0, 1, 1, 1, 1, 0});
  at::Tensor logits = golden_logits();
  logits[2][1] = std::numeric_limits<float>::quiet_NaN();
  Routes routes = routed(logits, switch_with(Drop::none), mask);
  EXPECT_EQ(values(routes.idx_TK), (Integers{3, 2, -1, 0, 1, 2, 1, -1}));
  EXPECT_EQ(values(routes.slot_TK), (Integers{0, 0, -1, 0, 0, 1, 1, -1}));
  expect_close(routes.weight_TK.select(1, 0),
               numbers({8}, {.459942, .331865, 0, .424628, .359018, .435989, .376348, 0}), 1e-6);
  expect_same_bits(load_of(routes.idx_TK), numbers({4}, {1, 2, 2, 1}));
  EXPECT_NEAR(aux_loss(logits, routes.idx_TK, 1, mask), 1.010223, 1e-6);
}

// (token, expert, slot) of every kept route in DeepSpeed's own test of its top-k gate.
TEST(GoldenGate, two_experts_of_four_with_two_places) {
  at::Tensor logits = numbers({4, 4}, {.11, .2, .1, .3, .3, .4, .11, .1, .11, .1, .6, .5, .1, .11, .7, .8});
  const int64_t places = capacity(4, 4, 2, {.factor = 1, .min_capacity = 0});
  auto kept = [&](Drop drop) {
    Routes routes = routed(logits, {.drop = drop, .top_k = 2, .capacity = places, .group = 4});
    std::vector<Integers> rows;
    for (int64_t r = 0; r < 8; ++r)
      if (values(routes.slot_TK)[r] >= 0) rows.push_back({r / 2, values(routes.idx_TK)[r], values(routes.slot_TK)[r]});
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  EXPECT_EQ(places, 2);
  std::vector<Integers> probs = {{0, 1, 0}, {1, 0, 0}, {1, 1, 1}, {2, 2, 0}, {2, 3, 0}, {3, 2, 1}, {3, 3, 1}};
  std::vector<Integers> position = {{0, 1, 0}, {0, 3, 0}, {1, 0, 0}, {1, 1, 1}, {2, 2, 0}, {2, 3, 1}, {3, 2, 1}};
  EXPECT_EQ(kept(Drop::probs), probs);
  EXPECT_EQ(kept(Drop::position), position);
}

TEST(GoldenGate, gradient_of_the_weights_of_top1) {
  at::Tensor slot = integers({8, 1}, {0, 0, 1, 0, 0, 1, 1, -1}), dlogits = stale({8, 4}, at::kFloat);
  RouteGrad grad{golden_logits(), integers({8, 1}, kFirst), slot, numbers({8, 1}, {1, 1, 1, 1, 1, 1, 1, 1})};
  route_grad(grad, switch_with(Drop::none), dlogits);
  at::Tensor golden = numbers({8, 4}, {-.054241, -.119157, -.074997, .248395,  -.102279, -.050134, .221731,  -.069318,
                                       -.063371, -.10842,  -.053144, .224936,  .244319,  -.068832, -.117763, -.057724,
                                       -.096737, .230124,  -.049205, -.084183, -.030676, -.142662, .245903,  -.072565,
                                       -.136493, .23471,   -.042109, -.056108, 0,        0,        0,        0});
  expect_close(dlogits, golden, 1e-6);
}

TEST(GoldenGate, gradient_of_the_aux_loss_of_top1) {
  at::Tensor load = numbers({4}, {1, 2, 3, 2}), dlogits = stale({8, 4}, at::kFloat);
  gate_stats_grad(golden_logits(), {}, {{load.mul(4.0 / 64), numbers({}, {0})}}, dlogits);
  at::Tensor golden = numbers({8, 4}, {-.007703, -.000731, .009731, -.001297, -.019718, -.000223, .020251, -.000309,
                                       -.011245, .000594,  .010012, .000639,  -.02263,  .001492,  .019886, .001251,
                                       -.014611, .002971,  .0097,   .00194,   -.006005, -.007477, .017286, -.003803,
                                       -.016983, .005899,  .008747, .002337,  -.008492, -.006922, .017549, -.002136});
  expect_close(dlogits, golden, 1e-6);
}

// DeepSpeed's no-drop form: as many rows in every cell as in the busiest.
void expect_padded_golden(const RouteOptions& options, int64_t rows_each,
                          const std::vector<int64_t>& slots_of_choices) {
  const int64_t k = options.top_k;
  Routes routes{stale({8, k}, at::kFloat), stale({8, k}, at::kLong), stale({8, k}, at::kLong)};
  route(golden_logits(), {}, options, routes);
  const Placed placed{routes.idx_TK, routes.slot_TK};
  EXPECT_EQ(busiest_cell(placed, {.chunks = 1, .experts = 4, .cells = 1}), rows_each);
  RowCounts counts{.table = stale({1, 4, 1}, at::kLong), .rows_TK = {stale({8, k}, at::kLong)}};
  count_rows(placed, counts, rows_each);
  EXPECT_EQ(values(counts.table), (std::vector<int64_t>(4, rows_each)));
  const std::vector<int64_t> idx = values(routes.idx_TK);
  for (int64_t choice = 0; choice < k; ++choice)
    for (int64_t t = 0; t < 8; ++t)
      EXPECT_EQ(values(counts.rows_TK[0])[t * k + choice],
                idx[t * k + choice] * rows_each + slots_of_choices[choice * 8 + t])
          << "token " << t << " choice " << choice;
  EXPECT_THROW(count_rows(placed, counts, rows_each - 1), ContractError);
}

TEST(Dispatch, pads_every_cell_to_the_busiest_as_deepspeed_does_when_it_drops_nothing) {
  expect_padded_golden({.gate = &switch_route, .normalize = Normalize::none, .top_k = 1}, 3, {0, 0, 1, 0, 0, 1, 1, 2});
  expect_padded_golden({.top_k = 3}, 7, {0, 1, 2, 2, 3, 3, 5, 4,  //
                                         0, 0, 1, 2, 3, 4, 4, 6,  //
                                         0, 1, 1, 2, 3, 4, 5, 6});
}

}  // namespace
}  // namespace plait::kernels
