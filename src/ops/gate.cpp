#include "ops/gate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plait::ops {
namespace {

constexpr int64_t kBlock = 128;  // tokens whose statistics are summed before they are added to the others

// Null where every token is real.
const int64_t* mask_of(const at::Tensor& mask_T, int64_t tokens) {
  if (!mask_T.defined()) return nullptr;
  expects(mask_T.numel() == tokens, "gate: one mask value per token");
  return in<int64_t>(mask_T);
}

bool real(const int64_t* mask, int64_t token) { return mask == nullptr || mask[token] != 0; }

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
void expects_finite(const T* logits, const int64_t* mask, int64_t tokens, int64_t experts) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (!real(mask, t)) continue;
    for (int64_t e = 0; e < experts; ++e)
      if (!std::isfinite(logits[t * experts + e]))
        throw GateFault(fmt::format("the gate's logit of token {} for expert {} is {}", t, e, logits[t * experts + e]));
  }
}

// The experts of the k largest logits in falling order; equal logits in rising order of expert.
template <class T>
void choose(const T* logits, int64_t experts, int64_t top_k, int64_t* idx) {
  int64_t filled = 0;
  for (int64_t e = 0; e < experts; ++e) {
    if (filled == top_k && logits[e] <= logits[idx[top_k - 1]]) continue;
    int64_t place = filled < top_k ? filled++ : top_k - 1;
    for (; place > 0 && logits[e] > logits[idx[place - 1]]; --place) idx[place] = idx[place - 1];
    idx[place] = e;
  }
}

// The routes of one gate group: numbers t * K + k in [begin, end).
struct Group {
  int64_t begin, end;
};

template <class T>
struct Capacity {
  const T* weight;  // before dropping: the probability of each route
  const int64_t* idx;
  int64_t* slot;
  const RouteOptions& options;
  int64_t experts;
};

// For each expert of a group: the routes it keeps get slot 0, 1, ... in token order, the others -1.
template <class T>
void give_slots(const Capacity<T>& c, const Group& group) {
  std::vector<std::vector<int64_t>> queue(c.experts);
  for (int64_t r = group.begin; r < group.end; ++r) {
    c.slot[r] = -1;
    if (c.idx[r] >= 0) queue[c.idx[r]].push_back(r);
  }
  for (auto& routes : queue) {
    int64_t size = static_cast<int64_t>(routes.size());
    int64_t kept = c.options.drop == Drop::none ? size : std::min(size, c.options.capacity);
    if (c.options.drop == Drop::probs && kept < size) {
      std::stable_sort(routes.begin(), routes.end(), [&](int64_t a, int64_t b) { return c.weight[a] > c.weight[b]; });
      std::sort(routes.begin(), routes.begin() + kept);
    }
    for (int64_t i = 0; i < kept; ++i) c.slot[routes[i]] = i;
  }
}

// Which of a token's routes share in the sum that divides their weights.
bool counts(Normalize normalize, int64_t idx, int64_t slot) {
  return idx >= 0 && (normalize == Normalize::before || slot >= 0);
}

Normalize normalize_of(const RouteOptions& options) {
  return options.gate == Gate::switch_top1 ? Normalize::none : options.normalize;
}

// One token's choice as the gradient sees it too.
template <class T>
struct Token {
  const T* logits;
  const int64_t* idx;
  const int64_t* slot;
  int64_t top_k;
};

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

template <class T>
void weigh(const Token<T>& token, Normalize normalize, T* weight) {
  std::vector<T> share(token.top_k);
  if (normalize != Normalize::none) {
    shares(token, normalize, share.data());
    std::copy(share.begin(), share.end(), weight);
  }
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] < 0) weight[k] = 0;
}

void expects_options(const RouteOptions& o, int64_t tokens, int64_t experts) {
  expects(o.top_k >= 1 && o.top_k <= experts, "route: top_k is between 1 and the number of experts");
  expects(o.gate != Gate::switch_top1 || o.top_k == 1, "route: the switch gate takes one expert per token");
  expects(o.drop == Drop::none || (o.group > 0 && tokens % o.group == 0),
          "route: the tokens are not equal gate groups");
  expects(o.drop == Drop::none || o.capacity >= 0, "route: a negative capacity");
}

// Each token's experts and their probabilities.
template <class T>
void choose_all(const at::Tensor& logits_TE, const int64_t* mask, const Routes& to, int64_t top_k) {
  int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1);
  const T* logits = in<T>(logits_TE);
  T* weight = out<T>(to.weight_TK);
  int64_t* idx = out<int64_t>(to.idx_TK);
  over_rows(tokens, 8 * experts, [=](int64_t begin, int64_t end) {
    std::vector<T> p(experts);
    for (int64_t t = begin; t < end; ++t) {
      std::fill_n(idx + t * top_k, top_k, -1);
      std::fill_n(weight + t * top_k, top_k, T{0});
      if (!real(mask, t)) continue;
      choose(logits + t * experts, experts, top_k, idx + t * top_k);
      softmax(logits + t * experts, p.data(), experts);
      for (int64_t r = t * top_k; r < (t + 1) * top_k; ++r) weight[r] = p[idx[r]];
    }
  });
}

}  // namespace

void route(const at::Tensor& logits_TE, const at::Tensor& mask_T, const RouteOptions& options, const Routes& to) {
  int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1), top_k = options.top_k;
  expects_options(options, tokens, experts);
  expects(to.weight_TK.numel() == tokens * top_k && to.idx_TK.numel() == tokens * top_k &&
              to.slot_TK.numel() == tokens * top_k,
          "route: the outputs are [tokens, top_k]");
  const int64_t* mask = mask_of(mask_T, tokens);
  int64_t group = options.drop == Drop::none ? std::max<int64_t>(1, tokens) : options.group;
  by_dtype(logits_TE, [&]<class T>(T) {
    const T* logits = in<T>(logits_TE);
    expects_finite(logits, mask, tokens, experts);
    choose_all<T>(logits_TE, mask, to, top_k);
    T* weight = out<T>(to.weight_TK);
    int64_t *idx = out<int64_t>(to.idx_TK), *slot = out<int64_t>(to.slot_TK);
    Capacity<T> capacity{weight, idx, slot, options, experts};
    for (int64_t t = 0; t < tokens; t += group) give_slots(capacity, {t * top_k, (t + group) * top_k});
    for (int64_t t = 0; t < tokens; ++t)
      weigh<T>({logits + t * experts, idx + t * top_k, slot + t * top_k, top_k}, normalize_of(options),
               weight + t * top_k);
  });
}

namespace {

// Normalised weights are a softmax over the routes that count, whatever the other logits.
template <class T>
void grad_of_shares(const Token<T>& token, Normalize normalize, const T* dweight, T* dlogits) {
  std::vector<T> share(token.top_k);
  shares(token, normalize, share.data());
  T mean = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += share[k] * dweight[k];
  for (int64_t k = 0; k < token.top_k; ++k)
    if (share[k] > 0) dlogits[token.idx[k]] = share[k] * ((token.slot[k] >= 0 ? dweight[k] : T{0}) - mean);
}

template <class T>
void grad_of_probabilities(const Token<T>& token, const T* dweight, T* dlogits, int64_t experts) {
  std::vector<T> p(experts);
  softmax(token.logits, p.data(), experts);
  T mean = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += p[token.idx[k]] * dweight[k];
  for (int64_t e = 0; e < experts; ++e) dlogits[e] = -p[e] * mean;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) dlogits[token.idx[k]] += p[token.idx[k]] * dweight[k];
}

}  // namespace

void route_grad(const RouteGrad& grad, const RouteOptions& options, const at::Tensor& dlogits_TE) {
  int64_t tokens = grad.logits_TE.size(0), experts = grad.logits_TE.size(1), top_k = options.top_k;
  expects_options(options, tokens, experts);
  expects(dlogits_TE.sizes() == grad.logits_TE.sizes() && grad.dweight_TK.numel() == tokens * top_k &&
              grad.idx_TK.numel() == tokens * top_k && grad.slot_TK.numel() == tokens * top_k,
          "route_grad: logits, routes and gradients do not fit");
  by_dtype(grad.logits_TE, [&]<class T>(T) {
    const T *logits = in<T>(grad.logits_TE), *dweight = in<T>(grad.dweight_TK);
    const int64_t *idx = in<int64_t>(grad.idx_TK), *slot = in<int64_t>(grad.slot_TK);
    T* dlogits = out<T>(dlogits_TE);
    over_rows(tokens, 8 * experts, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        std::fill_n(dlogits + t * experts, experts, T{0});
        Token<T> token{logits + t * experts, idx + t * top_k, slot + t * top_k, top_k};
        if (token.idx[0] < 0) continue;
        if (normalize_of(options) == Normalize::none)
          grad_of_probabilities(token, dweight + t * top_k, dlogits + t * experts, experts);
        else
          grad_of_shares(token, options.normalize, dweight + t * top_k, dlogits + t * experts);
      }
    });
  });
}

void gate_stats(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStats& stats) {
  int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1), width = experts + 1;
  expects(stats.psum_E.numel() == experts && stats.zsum.numel() == 1, "gate_stats: psum has one value per expert");
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(logits_TE, [&]<class T>(T) {
    const T* logits = in<T>(logits_TE);
    std::vector<T> sums((tokens + kBlock - 1) / kBlock * width), total(width);
    over_blocks(tokens, kBlock, [&](int64_t block, int64_t begin, int64_t end) {
      std::vector<T> p(experts);
      T* sum = sums.data() + block * width;
      for (int64_t t = begin; t < end; ++t) {
        if (!real(mask, t)) continue;
        T z = softmax(logits + t * experts, p.data(), experts);
        for (int64_t e = 0; e < experts; ++e) sum[e] += p[e];
        sum[experts] += z * z;
      }
    });
    add_in_order<T>(sums, width, total.data());
    std::copy_n(total.begin(), experts, out<T>(stats.psum_E));
    *out<T>(stats.zsum) = total[experts];
  });
}

void gate_stats_grad(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStats& grad,
                     const at::Tensor& dlogits_TE) {
  int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1);
  expects(dlogits_TE.sizes() == logits_TE.sizes() && grad.psum_E.numel() == experts && grad.zsum.numel() == 1,
          "gate_stats_grad: logits and gradients do not fit");
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(logits_TE, [&]<class T>(T) {
    const T *logits = in<T>(logits_TE), *dpsum = in<T>(grad.psum_E);
    T dzsum = *in<T>(grad.zsum), *dlogits = out<T>(dlogits_TE);
    over_rows(tokens, 8 * experts, [=](int64_t begin, int64_t end) {
      std::vector<T> p(experts);
      for (int64_t t = begin; t < end; ++t) {
        T* row = dlogits + t * experts;
        std::fill_n(row, experts, T{0});
        if (!real(mask, t)) continue;
        T z = softmax(logits + t * experts, p.data(), experts);
        T mean = dot(p.data(), dpsum, experts);
        for (int64_t e = 0; e < experts; ++e) row[e] = p[e] * (dpsum[e] - mean + 2 * dzsum * z);
      }
    });
  });
}

void expert_load(const at::Tensor& idx_TK, const at::Tensor& load_E) {
  std::vector<int64_t> count(load_E.numel());
  const int64_t* idx = in<int64_t>(idx_TK);
  for (int64_t r = 0; r < idx_TK.numel(); ++r) {
    expects(idx[r] < load_E.numel(), "expert_load: a route to an expert beyond the count");
    if (idx[r] >= 0) ++count[idx[r]];
  }
  by_dtype(load_E, [&]<class T>(T) { std::copy(count.begin(), count.end(), out<T>(load_E)); });
}

int64_t capacity(int64_t tokens, int64_t experts, int64_t top_k, const CapacityOptions& options) {
  expects(experts > 0, "capacity: no experts");
  double slots =
      static_cast<double>(tokens) / static_cast<double>(experts) * options.factor * static_cast<double>(top_k);
  slots = std::ceil(slots * (1 - 1e-9));  // 10 * 1.1 is 11 slots, not the 12 that its last bit would give
  return std::max(static_cast<int64_t>(slots), options.min_capacity);
}

}  // namespace plait::ops
