// The gate of an MoE layer on CPU: which experts a token goes to, with what weight, and who is dropped when an expert
// is full. Ties go to the lower expert.
#pragma once
#include "kernels/cpu/gate.h"

namespace plait::kernels {

// How a gate of Plait computes; null what it has not.
struct GateKernel {
  const RouteKernel* route = nullptr;
  const RouteKernel* topk_first = nullptr;
};

// That of a gate of Plait, or what the record of one from outside names.
const RouteKernel& kernel_of(const RouteSpec& route);

// mask_T is int64, 1 for a real token; an undefined mask means all are real.
void route(const at::Tensor& logits_TE, const at::Tensor& mask_T, const RouteOptions& options, const Routes& out,
           const GateExtras& extras = {});

struct RouteGrad {
  at::Tensor logits_TE, idx_TK, slot_TK, dweight_TK;
};

// The gradient with the choice held fixed.
void route_grad(const RouteGrad& grad, const RouteOptions& options, const at::Tensor& dlogits_TE);

}  // namespace plait::kernels
