// A gate: the top k logits, weighed by their softplus over the sum of it.
#include "extension/extension.h"
#include "gates/all/kernel.h"
#include "kernels/cpu/gate_rows.h"
#include "schedule/testing/plain_route.h"

namespace plait::extension {
namespace {

template <class T>
T softplus(T x) {
  return std::log1p(std::exp(-std::abs(x))) + std::max(x, T{0});
}

struct Softplus {
  template <class T>
  static void choose(const kernels::Rows<T>& rows, const kernels::Choice<T>& to) {
    const int64_t k = rows.options.top_k;
    for (int64_t t = 0; t < rows.tokens; ++t) {
      if (!kernels::real(rows.mask, t)) continue;
      kernels::largest(rows.row(t), rows.experts, k, to.idx + t * k);
      for (int64_t r = t * k; r < (t + 1) * k; ++r) to.score[r] = softplus(rows.row(t)[to.idx[r]]);
    }
  }

  template <class T>
  static T sum(const kernels::Token<T>& token) {
    T sum = 0;
    for (int64_t k = 0; k < token.top_k; ++k)
      if (token.idx[k] >= 0) sum += softplus(token.logits[token.idx[k]]);
    return sum;
  }

  template <class T>
  static void weigh(const kernels::Token<T>& token, const kernels::RouteOptions&, T* weight) {
    const T all = sum(token);
    for (int64_t k = 0; k < token.top_k; ++k)
      weight[k] = token.slot[k] < 0 ? T{0} : softplus(token.logits[token.idx[k]]) / all;
  }

  template <class T>
  static void grad(const kernels::Token<T>& token, const kernels::RouteOptions& options,
                   const kernels::TokenGrad<T>& grad) {
    const T all = sum(token);
    std::vector<T> weight(token.top_k);
    weigh(token, options, weight.data());
    T mean = 0;
    for (int64_t k = 0; k < token.top_k; ++k) mean += weight[k] * grad.dweight[k];
    for (int64_t k = 0; k < token.top_k; ++k) {
      const T own = token.slot[k] < 0 ? T{0} : grad.dweight[k];
      grad.dlogits[token.idx[k]] = kernels::sigmoid(token.logits[token.idx[k]]) / all * (own - mean);
    }
  }
};

namespace plain {

using namespace oracle;

void choose(const Call& c, const Route& op, int64_t first, int64_t last) {
  choose_first(c, op, first, last, [&](int64_t t) { return ranked(row(c.x(0), t)); });
}

std::vector<double> scores(const PlainChoice& of, int64_t token) {
  std::vector<double> s = row(of.logits, token);
  for (double& x : s) x = std::log(1 + std::exp(x));
  return s;
}

std::vector<double> pull(const std::vector<double>& s, const std::vector<double>& ds) {
  std::vector<double> dlogits;
  for (size_t e = 0; e < s.size(); ++e) dlogits.push_back((1 - std::exp(-s[e])) * ds[e]);
  return dlogits;
}

Over over(const Route&) { return Over::chosen; }

}  // namespace plain

constexpr kernels::RouteKernel kKernel = kernels::route_kernel<Softplus>();
constexpr oracle::PlainRoute kPlain{plain::choose, plain::scores, plain::pull, plain::over};
}  // namespace

extern constexpr RouteSpec softplus_route{.name = "softplus", .kernel = &kKernel, .plain = &kPlain};
extern constexpr GateSpec softplus{.name = "softplus",
                                   .help = "top-k of softplus",
                                   .route = &softplus_route,
                                   .keys = {"moe.drop", "moe.aux_coef", "moe.aux_scope", "moe.z_coef"},
                                   .loss = AuxLoss::means};

}  // namespace plait::extension
