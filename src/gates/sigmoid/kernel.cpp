#include "gates/all/kernel.h"

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

template <class T>
T best_two(const T* score, int64_t size) {
  T first = -INFINITY, second = -INFINITY;
  for (int64_t e = 0; e < size; ++e) {
    second = std::max(second, std::min(first, score[e]));
    first = std::max(first, score[e]);
  }
  return size > 1 ? first + second : first;
}

// Experts outside the groups that are kept can no longer be chosen.
template <class T>
void keep_groups(const GateRule& rule, std::vector<T>& score) {
  const int64_t size = static_cast<int64_t>(score.size()) / rule.expert_groups;
  std::vector<T> best(rule.expert_groups);
  for (int64_t g = 0; g < rule.expert_groups; ++g) best[g] = best_two(score.data() + g * size, size);
  std::vector<int64_t> kept(rule.kept_groups);
  largest(best.data(), rule.expert_groups, rule.kept_groups, kept.data());
  for (int64_t g = 0; g < rule.expert_groups; ++g)
    if (std::find(kept.begin(), kept.end(), g) == kept.end())
      std::fill_n(score.begin() + g * size, size, static_cast<T>(-INFINITY));
}

struct Sigmoid {
  template <class T>
  static void choose(const Rows<T>& rows, const Choice<T>& to) {
    const int64_t experts = rows.experts, top_k = rows.options.top_k;
    const GateRule& rule = rows.options.rule;
    over_rows(rows.tokens, 8 * experts, [&](int64_t begin, int64_t end) {
      std::vector<T> score(experts);
      for (int64_t t = begin; t < end; ++t) {
        if (!real(rows.mask, t)) continue;
        const T* logits = rows.row(t);
        for (int64_t e = 0; e < experts; ++e) score[e] = sigmoid(logits[e]) + rows.bias[e];
        if (rule.kept_groups < rule.expert_groups) keep_groups(rule, score);
        largest(score.data(), experts, top_k, to.idx + t * top_k);
        for (int64_t r = t * top_k; r < (t + 1) * top_k; ++r) to.score[r] = sigmoid(logits[to.idx[r]]);
      }
    });
  }

  static SigmoidWeights weights(const RouteOptions& options) { return {options.normalize, options.rule.scaling}; }

  template <class T>
  static void weigh(const Token<T>& token, const RouteOptions& options, T* weight) {
    weigh_by_sigmoid(token, weights(options), weight);
  }

  template <class T>
  static void grad(const Token<T>& token, const RouteOptions& options, const TokenGrad<T>& grad) {
    grad_by_sigmoid(token, weights(options), grad);
  }
};

constexpr RouteKernel kSigmoid = route_kernel<Sigmoid>();

}  // namespace

extern const GateKernel sigmoid_kernel{.route = &kSigmoid};

}  // namespace plait::kernels
