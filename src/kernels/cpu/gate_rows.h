// What the kernels of gates are written with: the tokens of a rank as a choice sees them, what weights are made of, and
// the three functions of each. What is common to all follows in gates/all/kernel.cpp: who is dropped, and slots.
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
  const T* bias;        // null without
  const int64_t* mask;  // null: every token is real
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

// Slots of all groups by options.drop; REQUIRES equal groups.
template <class T>
void give_all_slots(const Rows<T>& rows, const Choice<T>& choice, int64_t* slot);

// One token's choice as weights and their gradient see it.
template <class T>
struct Token {
  const T* logits;
  const int64_t* idx;
  const int64_t* slot;
  int64_t top_k, experts;
};

// Which of a token's routes share in the sum that divides their weights.
inline bool counts(Normalize normalize, int64_t idx, int64_t slot) {
  return idx >= 0 && (normalize == Normalize::before || slot >= 0);
}

// d loss / d weight [K] of a token, and where d loss / d logits [E] goes; zero before.
template <class T>
struct TokenGrad {
  const T* dweight;
  T* dlogits;
};

// The weights of a token by the softmax: its scores, or the softmax over the routes that count.
template <class T>
void weigh_by_softmax(const Token<T>& token, Normalize normalize, T* weight);
template <class T>
void grad_by_softmax(const Token<T>& token, Normalize normalize, const TokenGrad<T>& grad);

// scaling * sigmoid(logit), divided by the sum of the sigmoids that count.
struct SigmoidWeights {
  Normalize normalize;
  double scaling;
};
template <class T>
void weigh_by_sigmoid(const Token<T>& token, const SigmoidWeights& how, T* weight);
template <class T>
void grad_by_sigmoid(const Token<T>& token, const SigmoidWeights& how, const TokenGrad<T>& grad);

// How a gate computes in one element type.
template <class T>
struct RouteKernelOf {
  void (*choose)(const Rows<T>& rows, const Choice<T>& to);
  // The weights of one token in place of its scores; a dropped route weighs nothing.
  void (*weigh)(const Token<T>& token, const RouteOptions& options, T* weight);
  // Their gradient, with the choice held fixed.
  void (*grad)(const Token<T>& token, const RouteOptions& options, const TokenGrad<T>& grad);
};

struct RouteKernel {
  RouteKernelOf<float> of_float;
  RouteKernelOf<double> of_double;

  template <class T>
  const RouteKernelOf<T>& of() const {
    if constexpr (std::is_same_v<T, float>)
      return of_float;
    else
      return of_double;
  }
};

// Of a struct with the three as static templates.
template <class Gate>
constexpr RouteKernel route_kernel() {
  return {{&Gate::template choose<float>, &Gate::template weigh<float>, &Gate::template grad<float>},
          {&Gate::template choose<double>, &Gate::template weigh<double>, &Gate::template grad<double>}};
}

}  // namespace plait::kernels
