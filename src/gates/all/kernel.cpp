#include "gates/all/kernel.h"

#include "gates/all/record.h"
#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {

// softmax_kernel, switch_kernel, ..: each defined in its folder's kernel.cpp.
#define PLAIT_GATE_KERNEL(name) extern const GateKernel name##_kernel;
PLAIT_GATES(PLAIT_GATE_KERNEL)
#undef PLAIT_GATE_KERNEL

namespace {

struct Listed {
  const GateSpec* gate;
  const GateKernel* kernel;
};

#define PLAIT_GATE_LISTED(name) {&name##_gate, &name##_kernel},
constexpr Listed kListed[] = {PLAIT_GATES(PLAIT_GATE_LISTED)};
#undef PLAIT_GATE_LISTED

}  // namespace

const RouteKernel& kernel_of(const RouteSpec& route) {
  for (const auto& [gate, kernel] : kListed) {
    if (gate->route == &route && kernel->route) return *kernel->route;
    if (gate->topk_first == &route && kernel->topk_first) return *kernel->topk_first;
  }
  expects(route.kernel != nullptr, fmt::format("route: gate {} has no kernel", route.name));
  return *route.kernel;
}

namespace {

template <class T>
void expects_finite(const T* logits, const int64_t* mask, int64_t tokens, int64_t experts) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (!real(mask, t)) continue;
    for (int64_t e = 0; e < experts; ++e)
      if (!std::isfinite(logits[t * experts + e]))
        throw GateFault(fmt::format("the gate's logit of token {} for expert {} is {}", t, e, logits[t * experts + e]));
  }
}

void expects_options(const RouteOptions& o, int64_t tokens, int64_t experts) {
  const bool grouped = o.drop != Drop::none || o.group > 0;
  expects(o.top_k >= 1 && o.top_k <= experts, "route: top_k is between 1 and the number of experts");
  expects(o.gate->top_k == 0 || o.gate->top_k == o.top_k, "route: the gate takes another number of experts per token");
  expects(o.gate->chooser != Chooser::expert || o.top_k == experts, "route: a token has a place for each expert");
  expects(!grouped || (o.group > 0 && tokens % o.group == 0), "route: the tokens are not equal gate groups");
  expects(o.drop == Drop::none || o.capacity >= 0, "route: a negative capacity");
}

}  // namespace

void route(const at::Tensor& logits_TE, const at::Tensor& mask_T, const RouteOptions& options, const Routes& to,
           const GateExtras& extras) {
  const int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1), top_k = options.top_k;
  expects_options(options, tokens, experts);
  expects(!options.gate->bias || extras.bias_E.defined(), "route: the gate reads a bias");
  expects(to.weight_TK.numel() == tokens * top_k && to.idx_TK.numel() == tokens * top_k &&
              to.slot_TK.numel() == tokens * top_k,
          "route: the outputs are [tokens, top_k]");
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(logits_TE, [&]<class T>(T) {
    const RouteKernelOf<T>& kernel = kernel_of(*options.gate).of<T>();
    const T* bias = extras.bias_E.defined() ? in<T>(extras.bias_E) : nullptr;
    const Rows<T> rows{in<T>(logits_TE), bias, mask, tokens, experts, options, extras};
    expects_finite(rows.logits, mask, tokens, experts);
    T* weight = out<T>(to.weight_TK);
    int64_t *idx = out<int64_t>(to.idx_TK), *slot = out<int64_t>(to.slot_TK);
    std::fill_n(idx, tokens * top_k, -1);
    std::fill_n(weight, tokens * top_k, T{0});
    kernel.choose(rows, {idx, weight});
    give_all_slots<T>(rows, {idx, weight}, slot);
    for (int64_t t = 0; t < tokens; ++t)
      kernel.weigh({rows.row(t), idx + t * top_k, slot + t * top_k, top_k, experts}, options, weight + t * top_k);
  });
}

void route_grad(const RouteGrad& grad, const RouteOptions& options, const at::Tensor& dlogits_TE) {
  const int64_t tokens = grad.logits_TE.size(0), experts = grad.logits_TE.size(1), top_k = options.top_k;
  expects_options(options, tokens, experts);
  expects(dlogits_TE.sizes() == grad.logits_TE.sizes() && grad.dweight_TK.numel() == tokens * top_k &&
              grad.idx_TK.numel() == tokens * top_k && grad.slot_TK.numel() == tokens * top_k,
          "route_grad: logits, routes and gradients do not fit");
  by_dtype(grad.logits_TE, [&]<class T>(T) {
    const RouteKernelOf<T>& kernel = kernel_of(*options.gate).of<T>();
    const T *logits = in<T>(grad.logits_TE), *dweight = in<T>(grad.dweight_TK);
    const int64_t *idx = in<int64_t>(grad.idx_TK), *slot = in<int64_t>(grad.slot_TK);
    T* dlogits = out<T>(dlogits_TE);
    over_rows(tokens, 8 * experts, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        std::fill_n(dlogits + t * experts, experts, T{0});
        const Token<T> token{logits + t * experts, idx + t * top_k, slot + t * top_k, top_k, experts};
        if (std::all_of(token.idx, token.idx + top_k, [](int64_t e) { return e < 0; })) continue;
        kernel.grad(token, options, {dweight + t * top_k, dlogits + t * experts});
      }
    });
  });
}

}  // namespace plait::kernels
