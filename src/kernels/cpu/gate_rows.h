// What the files of the gates share: the tokens of a rank as a choice sees them, and what its weights are made of.
// Each gate is one file with its choice; dropping, slots and weights follow in gate.cpp.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/gate.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {

// Null where every token is real.
inline const int64_t* mask_of(const at::Tensor& mask_T, int64_t tokens) {
  if (!mask_T.defined()) return nullptr;
  expects(mask_T.numel() == tokens, "gate: one mask value per token");
  return in<int64_t>(mask_T);
}

inline bool real(const int64_t* mask, int64_t token) { return mask == nullptr || mask[token] != 0; }

// p = softmax(logits) over one token's experts; returns logsumexp.
template <class T>
T softmax(const T* logits, T* p, int64_t experts) {
  T top = max_of(logits, experts);
  for (int64_t e = 0; e < experts; ++e) p[e] = fast_exp(logits[e] - top);
  T sum = sum_of<T>(experts, [=](int64_t e) { return p[e]; });
  for (int64_t e = 0; e < experts; ++e) p[e] /= sum;
  return top + std::log(sum);
}

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// The experts of the k largest scores in falling order; equal scores in rising order of expert.
template <class T>
void largest(const T* score, int64_t experts, int64_t top_k, int64_t* idx) {
  int64_t filled = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (filled == top_k && score[e] <= score[idx[top_k - 1]]) continue;
    int64_t place = filled < top_k ? filled++ : top_k - 1;
    for (; place > 0 && score[e] > score[idx[place - 1]]; --place) idx[place] = idx[place - 1];
    idx[place] = e;
  }
}

template <class T>
struct Rows {
  const T* logits;
  const T* bias;  // null without
  const int64_t* mask;
  int64_t tokens, experts;
  const RouteOptions& options;
  const GateExtras& extras;

  const T* row(int64_t token) const { return logits + token * experts; }
  int64_t group() const { return options.group > 0 ? options.group : std::max<int64_t>(1, tokens); }
};

// [T, K]; `score` is what drop = probs ranks. They start as -1 and 0.
template <class T>
struct Choice {
  int64_t* idx;
  T* score;
};

template <class T>
void choose_softmax(const Rows<T>& rows, const Choice<T>& to);
template <class T>
void choose_gshard(const Rows<T>& rows, const Choice<T>& to);
template <class T>
void choose_sigmoid(const Rows<T>& rows, const Choice<T>& to);
template <class T>
void choose_by_experts(const Rows<T>& rows, const Choice<T>& to);
template <class T>
void choose_balanced(const Rows<T>& rows, const Choice<T>& to);

// Slots of all groups by options.drop; REQUIRES equal groups.
template <class T>
void give_all_slots(const Rows<T>& rows, const Choice<T>& choice, int64_t* slot);

// Which of a token's routes share in the sum that divides their weights.
inline bool counts(Normalize normalize, int64_t idx, int64_t slot) {
  return idx >= 0 && (normalize == Normalize::before || slot >= 0);
}

// One token's choice as weights and their gradient see it.
template <class T>
struct Token {
  const T* logits;
  const int64_t* idx;
  const int64_t* slot;
  int64_t top_k;
};

// Weights and gradient of the gates that score by sigmoid; dlogits is zero before.
template <class T>
void weigh_sigmoid(const Token<T>& token, Normalize normalize, double scaling, T* weight);

template <class T>
struct SigmoidGrad {
  Normalize normalize;
  double scaling;
  const T* dweight;
  T* dlogits;
};
template <class T>
void grad_of_sigmoid(const Token<T>& token, const SigmoidGrad<T>& grad);

}  // namespace plait::kernels
