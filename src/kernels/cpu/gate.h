// What the kernels of all gates share in their interfaces: the routes of tokens, how they are asked for, the statistics
// of a gate for its losses, and the load of its experts. Padding tokens (mask 0) take no part: index -1, slot -1,
// weight 0, no statistic. Weights, indices and slots are [T, K]; a dropped route keeps its expert, with slot -1 and
// weight 0.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <stdexcept>

#include "gates/softmax/record.h"
#include "schedule/draws.h"

namespace plait::kernels {

// A real token whose logits are not finite; the message names the token.
struct GateFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RouteOptions {
  const RouteSpec* gate = &softmax_route;
  Normalize normalize = Normalize::after;
  Drop drop = Drop::none;
  int64_t top_k = 2;
  int64_t capacity = 0;  // routes an expert takes from one group; unused without drops
  int64_t group = 0;     // tokens decided together; divides T
  GateRule rule = {};
};

// What the choice reads besides logits. Draws are of a token of this rank and an expert; needed only by the options
// that draw.
struct GateExtras {
  at::Tensor bias_E;  // of gates that have one
  Draws priority = {}, sample = {};
};

// weight_TK has the logits' element type; idx and slot are int64. slot: place among the kept routes of the same expert
// and group, in token order (some gates: first choices, then second ones). Throws GateFault.
struct Routes {
  at::Tensor weight_TK, idx_TK, slot_TK;
};

// Which tokens are summed together: all of a rank's, or those of each group of `size` tokens of the world, of which the
// rank's first token is number `first` counted from the beginning of its first group.
struct TokenGroups {
  int64_t size = 0, first = 0;

  int64_t of(int64_t token) const { return size ? (first + token) / size : 0; }
  int64_t begin(int64_t group) const { return size ? std::max<int64_t>(0, group * size - first) : 0; }
  int64_t end(int64_t group, int64_t tokens) const {
    return size ? std::clamp<int64_t>((group + 1) * size - first, 0, tokens) : tokens;
  }
};

// psum[e] = sum over real tokens of the score of e: its probability, or its share of the sigmoids; zsum[] = sum of
// logsumexp(logits)^2. Of groups: psum[W, E], zsum[W].
struct GateStats {
  at::Tensor psum_E, zsum;
};
struct StatsOptions {
  TokenGroups groups = {};
  Score score = Score::softmax;
};

void gate_stats(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStats& out,
                const StatsOptions& options = {});

// `grad` holds dpsum and dzsum.
struct GateStatsGrad {
  GateStats grad;
  StatsOptions options = {};
};
void gate_stats_grad(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStatsGrad& grad,
                     const at::Tensor& dlogits_TE);

// load[e]: routes that chose e, before dropping; of groups [W, E]. In the element type of load_E.
void expert_load(const at::Tensor& idx_TK, const at::Tensor& load_E, const TokenGroups& groups = {});

// Variance over mean square of the elements.
double squared_variation(const at::Tensor& x_E);
// dx = scale * its gradient.
void squared_variation_grad(const at::Tensor& x_E, double scale, const at::Tensor& dx_E);

// y = x times a random factor of 1 - amount to 1 + amount for each element; x [T, D] may be the output.
void jitter(const at::Tensor& x_TD, double amount, const Draws& draws, const at::Tensor& y_TD);

// bias[e] += rate * sign(mean load - load[e]); loads are whole numbers.
void balance_bias(const at::Tensor& load_E, double rate, const at::Tensor& bias_E);

struct CapacityOptions {
  double factor = 1.0;
  int64_t min_capacity = 4;
};

// max(ceil(tokens / experts * factor * k), min_capacity); top-1 counts k = 1.
int64_t capacity(int64_t tokens, int64_t experts, int64_t top_k, const CapacityOptions& options);

}  // namespace plait::kernels
