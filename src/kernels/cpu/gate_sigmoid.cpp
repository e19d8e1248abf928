// The gate of DeepSeek-V3: sigmoid scores, chosen with a bias that balances the load, weighed without it; experts may
// be limited to the best groups, a group's score being the sum of its two best.
#include <numeric>

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

}  // namespace

template <class T>
void choose_sigmoid(const Rows<T>& rows, const Choice<T>& to) {
  const int64_t experts = rows.experts, top_k = rows.options.top_k;
  expects(rows.bias != nullptr, "route: the sigmoid gate reads a bias");
  over_rows(rows.tokens, 8 * experts, [&](int64_t begin, int64_t end) {
    std::vector<T> score(experts);
    for (int64_t t = begin; t < end; ++t) {
      if (!real(rows.mask, t)) continue;
      const T* logits = rows.row(t);
      for (int64_t e = 0; e < experts; ++e) score[e] = sigmoid(logits[e]) + rows.bias[e];
      if (rows.options.rule.kept_groups < rows.options.rule.expert_groups) keep_groups(rows.options.rule, score);
      largest(score.data(), experts, top_k, to.idx + t * top_k);
      for (int64_t r = t * top_k; r < (t + 1) * top_k; ++r) to.score[r] = sigmoid(logits[to.idx[r]]);
    }
  });
}

// weight = scaling * s / (the sum over the routes that count)
template <class T>
T sum_of_counted(const Token<T>& token, Normalize normalize) {
  if (normalize == Normalize::none) return 1;
  T sum = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (counts(normalize, token.idx[k], token.slot[k])) sum += sigmoid(token.logits[token.idx[k]]);
  return sum;
}

template <class T>
void weigh_sigmoid(const Token<T>& token, Normalize normalize, double scaling, T* weight) {
  const T sum = sum_of_counted(token, normalize);
  for (int64_t k = 0; k < token.top_k; ++k)
    weight[k] =
        token.slot[k] < 0 || sum == 0 ? T{0} : static_cast<T>(scaling) * sigmoid(token.logits[token.idx[k]]) / sum;
}

template <class T>
void grad_of_sigmoid(const Token<T>& token, const SigmoidGrad<T>& grad) {
  const T sum = sum_of_counted(token, grad.normalize);
  if (sum == 0) return;
  const auto scale = static_cast<T>(grad.scaling);
  T mean = 0;  // of dweight over the routes that share the sum
  for (int64_t k = 0; grad.normalize != Normalize::none && k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += sigmoid(token.logits[token.idx[k]]) / sum * grad.dweight[k];
  for (int64_t k = 0; k < token.top_k; ++k) {
    if (!counts(grad.normalize == Normalize::before ? Normalize::before : Normalize::after, token.idx[k],
                token.slot[k]))
      continue;
    const T s = sigmoid(token.logits[token.idx[k]]), own = token.slot[k] >= 0 ? grad.dweight[k] : T{0};
    grad.dlogits[token.idx[k]] = scale * s * (1 - s) / sum * (own - mean);
  }
}

template void choose_sigmoid(const Rows<float>&, const Choice<float>&);
template void choose_sigmoid(const Rows<double>&, const Choice<double>&);
template void weigh_sigmoid(const Token<float>&, Normalize, double, float*);
template void weigh_sigmoid(const Token<double>&, Normalize, double, double*);
template void grad_of_sigmoid(const Token<float>&, const SigmoidGrad<float>&);
template void grad_of_sigmoid(const Token<double>&, const SigmoidGrad<double>&);

}  // namespace plait::kernels
