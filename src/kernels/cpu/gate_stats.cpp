// The statistics of a gate for its losses, the load of its experts, and the room that an expert has.
#include <cmath>

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

constexpr int64_t kBlock = 128;  // tokens whose statistics are summed before they are added to the others

// p = the scores of one token; returns logsumexp.
template <class T>
T scores(const T* logits, Score score, T* p, int64_t experts) {
  const T z = softmax(logits, p, experts);
  if (score == Score::softmax) return z;
  T sum = 0;
  for (int64_t e = 0; e < experts; ++e) sum += p[e] = sigmoid(logits[e]);
  for (int64_t e = 0; e < experts; ++e) p[e] /= sum;
  return z;
}

template <class T>
struct StatsOf {
  const T* logits;
  const int64_t* mask;
  int64_t experts;
  Score score;
};

// sum = [E] scores and z of the tokens begin to end.
template <class T>
void sum_tokens(const StatsOf<T>& of, int64_t first, int64_t last, T* sum) {
  const int64_t experts = of.experts, width = experts + 1;
  std::vector<T> sums((last - first + kBlock - 1) / kBlock * width);
  over_blocks(last - first, kBlock, [&](int64_t block, int64_t begin, int64_t end) {
    std::vector<T> p(experts);
    T* own = sums.data() + block * width;
    for (int64_t t = first + begin; t < first + end; ++t) {
      if (!real(of.mask, t)) continue;
      const T z = scores(of.logits + t * experts, of.score, p.data(), experts);
      for (int64_t e = 0; e < experts; ++e) own[e] += p[e];
      own[experts] += z * z;
    }
  });
  add_in_order<T>(sums, width, sum);
}

}  // namespace

void gate_stats(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStats& stats,
                const StatsOptions& options) {
  const int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1), groups = stats.zsum.numel();
  expects(stats.psum_E.numel() == groups * experts, "gate_stats: psum has one value per expert");
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(logits_TE, [&]<class T>(T) {
    const StatsOf<T> of{in<T>(logits_TE), mask, experts, options.score};
    std::vector<T> sum(experts + 1);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t begin = options.groups.begin(g);
      sum_tokens(of, begin, std::max(begin, options.groups.end(g, tokens)), sum.data());
      std::copy_n(sum.begin(), experts, out<T>(stats.psum_E) + g * experts);
      out<T>(stats.zsum)[g] = sum[experts];
    }
  });
}

void gate_stats_grad(const at::Tensor& logits_TE, const at::Tensor& mask_T, const GateStatsGrad& of,
                     const at::Tensor& dlogits_TE) {
  const int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1);
  expects(dlogits_TE.sizes() == logits_TE.sizes() && of.grad.psum_E.numel() == of.grad.zsum.numel() * experts,
          "gate_stats_grad: logits and gradients do not fit");
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(logits_TE, [&]<class T>(T) {
    const T *logits = in<T>(logits_TE), *dpsums = in<T>(of.grad.psum_E), *dzsum = in<T>(of.grad.zsum);
    T* dlogits = out<T>(dlogits_TE);
    over_rows(tokens, 8 * experts, [&](int64_t begin, int64_t end) {
      std::vector<T> p(experts);
      for (int64_t t = begin; t < end; ++t) {
        const T* x = logits + t * experts;
        T* row = dlogits + t * experts;
        std::fill_n(row, experts, T{0});
        if (!real(mask, t)) continue;
        const int64_t group = of.options.groups.of(t);
        const T* dpsum = dpsums + group * experts;
        const T z = softmax(x, p.data(), experts);
        if (of.options.score == Score::softmax) {
          const T mean = dot(p.data(), dpsum, experts);
          for (int64_t e = 0; e < experts; ++e) row[e] = p[e] * (dpsum[e] - mean + 2 * dzsum[group] * z);
          continue;
        }
        for (int64_t e = 0; e < experts; ++e) row[e] = p[e] * 2 * dzsum[group] * z;
        scores(x, of.options.score, p.data(), experts);
        const T mean = dot(p.data(), dpsum, experts);
        for (int64_t e = 0; e < experts; ++e) row[e] += p[e] * (1 - sigmoid(x[e])) * (dpsum[e] - mean);
      }
    });
  });
}

void expert_load(const at::Tensor& idx_TK, const at::Tensor& load_E, const TokenGroups& groups) {
  std::vector<int64_t> count(load_E.numel());
  const int64_t* idx = in<int64_t>(idx_TK);
  const int64_t top_k = idx_TK.size(1), experts = load_E.size(-1);
  for (int64_t r = 0; r < idx_TK.numel(); ++r) {
    expects(idx[r] < experts, "expert_load: a route to an expert beyond the count");
    if (idx[r] >= 0) ++count[groups.of(r / top_k) * experts + idx[r]];
  }
  by_dtype(load_E, [&]<class T>(T) { std::copy(count.begin(), count.end(), out<T>(load_E)); });
}

void jitter(const at::Tensor& x_TD, double amount, const Draws& draws, const at::Tensor& y_TD) {
  const int64_t width = x_TD.size(1);
  by_dtype(x_TD, [&]<class T>(T) {
    const T* x = in<T>(x_TD);
    T* y = out<T>(y_TD);
    over_rows(x_TD.size(0), 8 * width, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        for (int64_t d = 0; d < width; ++d)
          y[t * width + d] = static_cast<T>(x[t * width + d] * std::fma(amount, 2 * draws.uniform(t, d) - 1, 1.0));
    });
  });
}

void balance_bias(const at::Tensor& load_E, double rate, const at::Tensor& bias_E) {
  const int64_t experts = load_E.numel();
  expects(bias_E.numel() == experts, "balance_bias: one load for each bias");
  by_dtype(load_E, [&]<class T>(T) {
    const T* load = in<T>(load_E);
    T* bias = out<T>(bias_E);
    int64_t sum = 0;
    for (int64_t e = 0; e < experts; ++e) sum += std::llround(load[e]);
    for (int64_t e = 0; e < experts; ++e) {
      const int64_t above = std::llround(load[e]) * experts - sum;
      bias[e] += static_cast<T>(above < 0 ? rate : above > 0 ? -rate : 0);
    }
  });
}

namespace {

// So that no load at all has no variation either.
constexpr double kTiny = 1e-10;

struct Moments {
  double mean = 0, variance = 0;
};

template <class T>
Moments moments(const T* x, int64_t n) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.mean += x[i] / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) m.variance += (x[i] - m.mean) * (x[i] - m.mean) / static_cast<double>(n);
  return m;
}

}  // namespace

double squared_variation(const at::Tensor& x_E) {
  double result = 0;
  by_dtype(x_E, [&]<class T>(T) {
    const Moments m = moments(in<T>(x_E), x_E.numel());
    result = m.variance / (m.mean * m.mean + kTiny);
  });
  return result;
}

void squared_variation_grad(const at::Tensor& x_E, double scale, const at::Tensor& dx_E) {
  by_dtype(x_E, [&]<class T>(T) {
    const T* x = in<T>(x_E);
    const Moments m = moments(x, x_E.numel());
    const double square = m.mean * m.mean + kTiny, each = 2 * scale / static_cast<double>(x_E.numel()) / square;
    for (int64_t i = 0; i < x_E.numel(); ++i)
      out<T>(dx_E)[i] = static_cast<T>(each * (x[i] - m.mean - m.variance * m.mean / square));
  });
}

int64_t capacity(int64_t tokens, int64_t experts, int64_t top_k, const CapacityOptions& options) {
  expects(experts > 0, "capacity: no experts");
  double slots =
      static_cast<double>(tokens) / static_cast<double>(experts) * options.factor * static_cast<double>(top_k);
  slots = std::ceil(slots * (1 - 1e-9));  // 10 * 1.1 is 11 slots, not the 12 that its last bit would give
  return std::max(static_cast<int64_t>(slots), options.min_capacity);
}

}  // namespace plait::kernels
