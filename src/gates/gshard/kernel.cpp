#include "gates/all/kernel.h"

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

struct Gshard {
  // The second choice is the maximum, or a draw, among the others.
  template <class T>
  static void choose(const Rows<T>& rows, const Choice<T>& to) {
    const int64_t experts = rows.experts;
    const bool sampled = rows.options.rule.sample == Sample::gumbel;
    over_rows(rows.tokens, 8 * experts, [&](int64_t begin, int64_t end) {
      std::vector<T> p(experts), others(experts);
      for (int64_t t = begin; t < end; ++t) {
        if (!real(rows.mask, t)) continue;
        const T* logits = rows.row(t);
        int64_t* idx = to.idx + 2 * t;
        largest(logits, experts, 1, idx);
        for (int64_t e = 0; e < experts; ++e)
          others[e] = sampled ? static_cast<T>(logits[e] + gumbel(rows.extras.sample.uniform(t, e))) : logits[e];
        others[idx[0]] = -INFINITY;
        largest(others.data(), experts, 1, idx + 1);
        softmax(logits, p.data(), experts);
        for (int64_t k = 0; k < 2; ++k) to.score[2 * t + k] = p[idx[k]];
      }
    });
  }

  template <class T>
  static void weigh(const Token<T>& token, const RouteOptions&, T* weight) {
    weigh_by_softmax(token, Normalize::after, weight);
  }

  template <class T>
  static void grad(const Token<T>& token, const RouteOptions&, const TokenGrad<T>& grad) {
    grad_by_softmax(token, Normalize::after, grad);
  }
};

constexpr RouteKernel kGshard = route_kernel<Gshard>();

}  // namespace

extern const GateKernel gshard_kernel{.route = &kGshard};

}  // namespace plait::kernels
