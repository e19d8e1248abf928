#include "gates/all/kernel.h"

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

struct Switch {
  template <class T>
  static void choose(const Rows<T>& rows, const Choice<T>& to) {
    const int64_t experts = rows.experts;
    const bool sampled = rows.options.rule.sample == Sample::gumbel;
    over_rows(rows.tokens, 8 * experts, [&](int64_t begin, int64_t end) {
      std::vector<T> p(experts), drawn(experts);
      for (int64_t t = begin; t < end; ++t) {
        if (!real(rows.mask, t)) continue;
        const T* logits = rows.row(t);
        for (int64_t e = 0; sampled && e < experts; ++e)
          drawn[e] = static_cast<T>(logits[e] + gumbel(rows.extras.sample.uniform(t, e)));
        largest(sampled ? drawn.data() : logits, experts, 1, to.idx + t);
        softmax(logits, p.data(), experts);
        to.score[t] = p[to.idx[t]];
      }
    });
  }

  template <class T>
  static void weigh(const Token<T>& token, const RouteOptions&, T* weight) {
    weigh_by_softmax(token, Normalize::none, weight);
  }

  template <class T>
  static void grad(const Token<T>& token, const RouteOptions&, const TokenGrad<T>& grad) {
    grad_by_softmax(token, Normalize::none, grad);
  }
};

constexpr RouteKernel kSwitch = route_kernel<Switch>();

}  // namespace

extern const GateKernel switch_kernel{.route = &kSwitch};

}  // namespace plait::kernels
