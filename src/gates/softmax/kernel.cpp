#include "gates/all/kernel.h"

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

// idx = the top k logits of each real token; then score(t).
template <class T, class Body>
void choose_largest(const Rows<T>& rows, const Choice<T>& to, Body score) {
  const int64_t top_k = rows.options.top_k;
  over_rows(rows.tokens, 8 * rows.experts, [&](int64_t begin, int64_t end) {
    std::vector<T> p(rows.experts);
    for (int64_t t = begin; t < end; ++t) {
      if (!real(rows.mask, t)) continue;
      largest(rows.row(t), rows.experts, top_k, to.idx + t * top_k);
      score(t, p);
    }
  });
}

struct Softmax {
  template <class T>
  static void choose(const Rows<T>& rows, const Choice<T>& to) {
    const int64_t top_k = rows.options.top_k;
    choose_largest(rows, to, [&](int64_t t, std::vector<T>& p) {
      softmax(rows.row(t), p.data(), rows.experts);
      for (int64_t r = t * top_k; r < (t + 1) * top_k; ++r) to.score[r] = p[to.idx[r]];
    });
  }

  template <class T>
  static void weigh(const Token<T>& token, const RouteOptions& options, T* weight) {
    weigh_by_softmax(token, options.normalize, weight);
  }

  template <class T>
  static void grad(const Token<T>& token, const RouteOptions& options, const TokenGrad<T>& grad) {
    grad_by_softmax(token, options.normalize, grad);
  }
};

struct TopkSoftmax {
  template <class T>
  static void choose(const Rows<T>& rows, const Choice<T>& to) {
    const int64_t top_k = rows.options.top_k;
    choose_largest(rows, to, [&](int64_t t, std::vector<T>& chosen) {
      for (int64_t k = 0; k < top_k; ++k) chosen[k] = rows.row(t)[to.idx[t * top_k + k]];
      softmax(chosen.data(), to.score + t * top_k, top_k);
    });
  }

  // Those of the chosen ones sum to 1 already.
  static Normalize normalize(const RouteOptions& options) {
    return options.normalize == Normalize::none ? Normalize::before : options.normalize;
  }

  template <class T>
  static void weigh(const Token<T>& token, const RouteOptions& options, T* weight) {
    weigh_by_softmax(token, normalize(options), weight);
  }

  template <class T>
  static void grad(const Token<T>& token, const RouteOptions& options, const TokenGrad<T>& grad) {
    grad_by_softmax(token, normalize(options), grad);
  }
};

constexpr RouteKernel kSoftmax = route_kernel<Softmax>(), kTopkSoftmax = route_kernel<TopkSoftmax>();

}  // namespace

extern const GateKernel softmax_kernel{.route = &kSoftmax, .topk_first = &kTopkSoftmax};

}  // namespace plait::kernels
