#include "gates/noisy_topk/kernel.h"

#include <numeric>

#include "gates/all/kernel.h"
#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {

extern const GateKernel noisy_topk_kernel{};  // chooses as softmax after the top k
namespace {

template <class T>
T softplus(T x) {
  return std::log1p(std::exp(-std::abs(x))) + std::max(x, T{0});
}

// The pieces of one token's probabilities to be chosen.
template <class T>
class NoisyToken {
 public:
  NoisyToken(const T* noisy, int64_t experts, int64_t top_k) : experts_(experts), top_k_(top_k) {
    order_.resize(std::min(top_k + 1, experts));
    largest(noisy, experts, static_cast<int64_t>(order_.size()), order_.data());
    share_.resize(top_k);
    T sum = 0;
    for (int64_t k = 0; k < top_k; ++k) sum += share_[k] = std::exp(noisy[order_[k]] - noisy[order_[0]]);
    for (T& s : share_) s /= sum;
  }

  const std::vector<T>& share() const { return share_; }
  int64_t chosen(int64_t k) const { return order_[k]; }

  // The expert whose noisy logit `e` has to beat; -1 where all are chosen.
  int64_t rival(int64_t e) const {
    if (top_k_ == experts_) return -1;
    const auto end = order_.begin() + top_k_;
    return order_[std::find(order_.begin(), end, e) == end ? top_k_ - 1 : top_k_];
  }

 private:
  int64_t experts_, top_k_;
  std::vector<int64_t> order_;  // by falling noisy logit; one more than are chosen
  std::vector<T> share_;        // softmax over the chosen
};

// (logits - the rival's noisy logit) / standard deviation.
template <class T>
T lead(T gap, T deviation) {
  return deviation > 0 ? gap / deviation : gap > 0 ? INFINITY : -INFINITY;
}

template <class T>
struct Pointers {
  const T *logits, *spread, *noisy;
  explicit Pointers(const NoisyLogits& of)
      : logits(in<T>(of.logits_TE)), spread(in<T>(of.spread_TE)), noisy(in<T>(of.noisy_TE)) {}
};

}  // namespace

void add_noise(const NoiseTerms& terms, const Draws& draws, const at::Tensor& noisy_TE) {
  const int64_t experts = noisy_TE.size(1);
  expects(terms.logits_TE.sizes() == noisy_TE.sizes() && terms.spread_TE.sizes() == noisy_TE.sizes(),
          "add_noise: one spread for each logit");
  by_dtype(noisy_TE, [&]<class T>(T) {
    const T *logits = in<T>(terms.logits_TE), *spread = in<T>(terms.spread_TE);
    T* noisy = out<T>(noisy_TE);
    over_rows(noisy_TE.size(0), 16 * experts, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * experts; i < end * experts; ++i)
        noisy[i] = logits[i] + static_cast<T>(draws.normal(i / experts, i % experts)) * softplus(spread[i]);
    });
  });
}

void noise_grad(const at::Tensor& spread_TE, const at::Tensor& dnoisy_TE, const Draws& draws,
                const at::Tensor& dspread_TE) {
  const int64_t experts = spread_TE.size(1);
  by_dtype(spread_TE, [&]<class T>(T) {
    const T *spread = in<T>(spread_TE), *dnoisy = in<T>(dnoisy_TE);
    T* dspread = out<T>(dspread_TE);
    over_rows(spread_TE.size(0), 16 * experts, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * experts; i < end * experts; ++i)
        dspread[i] = dnoisy[i] * static_cast<T>(draws.normal(i / experts, i % experts)) * sigmoid(spread[i]);
    });
  });
}

void noisy_stats(const NoisyLogits& of, const at::Tensor& mask_T, int64_t top_k, const NoisyStats& stats) {
  const int64_t tokens = of.noisy_TE.size(0), experts = of.noisy_TE.size(1), width = 2 * experts;
  expects(top_k >= 1 && top_k <= experts, "noisy_stats: top_k is between 1 and the number of experts");
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(of.noisy_TE, [&]<class T>(T) {
    const Pointers<T> p(of);
    constexpr int64_t kBlock = 128;
    std::vector<T> sums((tokens + kBlock - 1) / kBlock * width), total(width);
    over_blocks(tokens, kBlock, [&](int64_t block, int64_t begin, int64_t end) {
      T *importance = sums.data() + block * width, *load = importance + experts;
      for (int64_t t = begin; t < end; ++t) {
        if (!real(mask, t)) continue;
        const T* noisy = p.noisy + t * experts;
        const NoisyToken<T> token(noisy, experts, top_k);
        for (int64_t k = 0; k < top_k; ++k) importance[token.chosen(k)] += token.share()[k];
        for (int64_t e = 0; e < experts; ++e) {
          const int64_t i = t * experts + e, rival = token.rival(e);
          load[e] +=
              rival < 0 ? T{1} : std::erfc(-lead(p.logits[i] - noisy[rival], softplus(p.spread[i])) * T(M_SQRT1_2)) / 2;
        }
      }
    });
    add_in_order<T>(sums, width, total.data());
    std::copy_n(total.begin(), experts, out<T>(stats.importance_E));
    std::copy_n(total.begin() + experts, experts, out<T>(stats.load_E));
  });
}

namespace {

template <class T>
struct NoisyTokenGrad {
  const T *logits, *spread, *noisy, *dimportance, *dload;
  T *dlogits, *dspread, *dnoisy;  // zero before
};

template <class T>
void noisy_token_grad(const NoisyTokenGrad<T>& g, int64_t experts, int64_t top_k) {
  const NoisyToken<T> token(g.noisy, experts, top_k);
  T mean = 0;
  for (int64_t k = 0; k < top_k; ++k) mean += token.share()[k] * g.dimportance[token.chosen(k)];
  for (int64_t k = 0; k < top_k; ++k)
    g.dnoisy[token.chosen(k)] = token.share()[k] * (g.dimportance[token.chosen(k)] - mean);
  for (int64_t e = 0; e < experts; ++e) {
    const int64_t rival = token.rival(e);
    const T deviation = softplus(g.spread[e]);
    if (rival < 0 || !(deviation > 0)) continue;
    const T u = (g.logits[e] - g.noisy[rival]) / deviation;
    const T slope = g.dload[e] * std::exp(-u * u / 2) * T(M_2_SQRTPI * M_SQRT1_2 / 2) / deviation;
    if (slope == 0) continue;  // so far away that u itself may overflow
    g.dlogits[e] = slope;
    g.dspread[e] = -slope * u * sigmoid(g.spread[e]);
    g.dnoisy[rival] -= slope;
  }
}

}  // namespace

void noisy_stats_grad(const NoisyLogits& of, const at::Tensor& mask_T, const NoisyStatsGrad& grad,
                      const NoisyLogits& to) {
  const int64_t tokens = of.noisy_TE.size(0), experts = of.noisy_TE.size(1);
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(of.noisy_TE, [&]<class T>(T) {
    const Pointers<T> p(of);
    const T *dimportance = in<T>(grad.grad.importance_E), *dload = in<T>(grad.grad.load_E);
    T* const outs[] = {out<T>(to.logits_TE), out<T>(to.spread_TE), out<T>(to.noisy_TE)};
    over_rows(tokens, 32 * experts, [&](int64_t begin, int64_t end) {
      for (T* x : outs) std::fill_n(x + begin * experts, (end - begin) * experts, T{0});
      for (int64_t t = begin; t < end; ++t) {
        const int64_t at = t * experts;
        if (real(mask, t))
          noisy_token_grad<T>({p.logits + at, p.spread + at, p.noisy + at, dimportance, dload, outs[0] + at,
                               outs[1] + at, outs[2] + at},
                              experts, grad.top_k);
      }
    });
  });
}

}  // namespace plait::kernels
