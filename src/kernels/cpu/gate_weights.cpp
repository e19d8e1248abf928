// Weights by the softmax and by sigmoids, and their gradients.
#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

// share[k] = softmax over the routes that count, 0 for the others. It needs no full softmax and stays exact where the
// probabilities themselves would vanish; one route alone gets exactly 1.
template <class T>
void shares(const Token<T>& token, Normalize normalize, T* share) {
  T top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (counts(normalize, token.idx[k], token.slot[k])) top = std::max(top, token.logits[token.idx[k]]);
  for (int64_t k = 0; k < token.top_k; ++k) {
    bool counted = counts(normalize, token.idx[k], token.slot[k]);
    share[k] = counted ? std::exp(token.logits[token.idx[k]] - top) : T{0};
    sum += share[k];
  }
  for (int64_t k = 0; k < token.top_k; ++k)
    if (sum > 0) share[k] /= sum;
}

// Normalised weights are a softmax over the routes that count, whatever the other logits.
template <class T>
void grad_of_shares(const Token<T>& token, Normalize normalize, const TokenGrad<T>& grad) {
  std::vector<T> share(token.top_k);
  shares(token, normalize, share.data());
  T mean = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += share[k] * grad.dweight[k];
  for (int64_t k = 0; k < token.top_k; ++k)
    if (share[k] > 0) grad.dlogits[token.idx[k]] = share[k] * ((token.slot[k] >= 0 ? grad.dweight[k] : T{0}) - mean);
}

template <class T>
void grad_of_probabilities(const Token<T>& token, const TokenGrad<T>& grad) {
  std::vector<T> p(token.experts);
  softmax(token.logits, p.data(), token.experts);
  T mean = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += p[token.idx[k]] * grad.dweight[k];
  for (int64_t e = 0; e < token.experts; ++e) grad.dlogits[e] = -p[e] * mean;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) grad.dlogits[token.idx[k]] += p[token.idx[k]] * grad.dweight[k];
}

}  // namespace

template <class T>
void weigh_by_softmax(const Token<T>& token, Normalize normalize, T* weight) {
  if (normalize != Normalize::none) {
    std::vector<T> share(token.top_k);
    shares(token, normalize, share.data());
    std::copy(share.begin(), share.end(), weight);
  }
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] < 0) weight[k] = 0;
}

template <class T>
void grad_by_softmax(const Token<T>& token, Normalize normalize, const TokenGrad<T>& grad) {
  normalize == Normalize::none ? grad_of_probabilities(token, grad) : grad_of_shares(token, normalize, grad);
}

namespace {

// What a weight is divided by.
template <class T>
T sum_of_counted(const Token<T>& token, Normalize normalize) {
  if (normalize == Normalize::none) return 1;
  T sum = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (counts(normalize, token.idx[k], token.slot[k])) sum += sigmoid(token.logits[token.idx[k]]);
  return sum;
}

}  // namespace

template <class T>
void weigh_by_sigmoid(const Token<T>& token, const SigmoidWeights& how, T* weight) {
  const T sum = sum_of_counted(token, how.normalize);
  for (int64_t k = 0; k < token.top_k; ++k)
    weight[k] =
        token.slot[k] < 0 || sum == 0 ? T{0} : static_cast<T>(how.scaling) * sigmoid(token.logits[token.idx[k]]) / sum;
}

template <class T>
void grad_by_sigmoid(const Token<T>& token, const SigmoidWeights& how, const TokenGrad<T>& grad) {
  const T sum = sum_of_counted(token, how.normalize);
  if (sum == 0) return;
  const auto scale = static_cast<T>(how.scaling);
  T mean = 0;  // of dweight over the routes that share the sum
  for (int64_t k = 0; how.normalize != Normalize::none && k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += sigmoid(token.logits[token.idx[k]]) / sum * grad.dweight[k];
  for (int64_t k = 0; k < token.top_k; ++k) {
    if (!counts(how.normalize == Normalize::before ? Normalize::before : Normalize::after, token.idx[k], token.slot[k]))
      continue;
    const T s = sigmoid(token.logits[token.idx[k]]), own = token.slot[k] >= 0 ? grad.dweight[k] : T{0};
    grad.dlogits[token.idx[k]] = scale * s * (1 - s) / sum * (own - mean);
  }
}

template void weigh_by_softmax(const Token<float>&, Normalize, float*);
template void weigh_by_softmax(const Token<double>&, Normalize, double*);
template void grad_by_softmax(const Token<float>&, Normalize, const TokenGrad<float>&);
template void grad_by_softmax(const Token<double>&, Normalize, const TokenGrad<double>&);
template void weigh_by_sigmoid(const Token<float>&, const SigmoidWeights&, float*);
template void weigh_by_sigmoid(const Token<double>&, const SigmoidWeights&, double*);
template void grad_by_sigmoid(const Token<float>&, const SigmoidWeights&, const TokenGrad<float>&);
template void grad_by_sigmoid(const Token<double>&, const SigmoidWeights&, const TokenGrad<double>&);

}  // namespace plait::kernels
