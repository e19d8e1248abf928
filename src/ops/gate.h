// The gate of an MoE layer: which experts a token goes to, with what weight, and who is dropped when an expert is full.
// Ties go to the lower expert. Padding tokens (mask 0) take no part: index -1, slot -1, weight 0, no statistic.
// Weights, indices and slots are [T, K]; a dropped route keeps its expert, with slot -1 and weight 0.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <stdexcept>

#include "schedule/choices.h"

namespace plait::ops {

// A real token whose logits are not finite; the message names the token.
struct GateFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RouteOptions {
  Gate gate = Gate::softmax;
  Normalize normalize = Normalize::after;
  Drop drop = Drop::none;
  int64_t top_k = 2;
  int64_t capacity = 0;  // routes an expert takes from one group; unused without drops
  int64_t group = 0;     // tokens decided together; divides T
  GateRule rule = {};
};

// What the choice reads besides logits. Draws are in (0, 1), of a token of this rank and an expert; needed only by the
// options that draw.
struct GateExtras {
  at::Tensor bias_E;  // sigmoid
  std::function<double(int64_t token, int64_t expert)> priority, sample;
};

// weight_TK has the logits' element type; idx and slot are int64. slot: place among the kept routes of the same expert
// and group, in token order (gshard: first choices, then second ones). Throws GateFault.
struct Routes {
  at::Tensor weight_TK, idx_TK, slot_TK;
};

// mask_T is int64, 1 for a real token; an undefined mask means all are real.
void route(const at::Tensor& logits_TE, const at::Tensor& mask_T, const RouteOptions& options, const Routes& out,
           const GateExtras& extras = {});

// The gate of fixed hashing, as `options` say of top_k, drop (none or position), capacity and group; ids are int64. See
// HashRoute.
struct HashedTokens {
  at::Tensor ids_T, mask_T;
  int64_t experts = 1;
};
void route_by_hash(const HashedTokens& tokens, const RouteOptions& options, const Routes& out);

struct RouteGrad {
  at::Tensor logits_TE, idx_TK, slot_TK, dweight_TK;
};

// The gradient with the choice held fixed, through the softmax or sigmoid and the normalisation.
void route_grad(const RouteGrad& grad, const RouteOptions& options, const at::Tensor& dlogits_TE);

// psum[e] = sum over real tokens of the probability of e; zsum[] = sum of logsumexp(logits)^2.
struct GateStats {
  at::Tensor psum_E, zsum;
};

void gate_stats(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStats& out);

// `grad` holds dpsum_E and dzsum.
void gate_stats_grad(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStats& grad,
                     const at::Tensor& dlogits_TE);

// load[e]: routes that chose e, before dropping. In the element type of load_E.
void expert_load(const at::Tensor& idx_TK, const at::Tensor& load_E);

// y[t, d] = factor(t, d) * x[t, d]; x [T, D] may be the output.
void scale_each(const at::Tensor& x_TD, const std::function<double(int64_t token, int64_t column)>& factor,
                const at::Tensor& y_TD);

// bias[e] += rate * sign(mean load - load[e]); loads are whole numbers.
void balance_bias(const at::Tensor& load_E, double rate, const at::Tensor& bias_E);

struct CapacityOptions {
  double factor = 1.0;
  int64_t min_capacity = 4;
};

// max(ceil(tokens / experts * factor * k), min_capacity); top-1 counts k = 1.
int64_t capacity(int64_t tokens, int64_t experts, int64_t top_k, const CapacityOptions& options);

}  // namespace plait::ops
