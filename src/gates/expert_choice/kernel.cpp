#include "gates/all/kernel.h"

#include <numeric>

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

template <class T>
void choose_in_group(const Rows<T>& rows, const Choice<T>& to, int64_t first) {
  const int64_t experts = rows.experts;
  std::vector<int64_t> tokens;
  for (int64_t t = first; t < first + rows.group(); ++t)
    if (real(rows.mask, t)) tokens.push_back(t);
  std::vector<T> p(tokens.size() * experts);
  for (size_t i = 0; i < tokens.size(); ++i) softmax(rows.row(tokens[i]), p.data() + i * experts, experts);
  const auto taken = std::min<int64_t>(rows.options.capacity, static_cast<int64_t>(tokens.size()));
  std::vector<size_t> order(tokens.size());
  for (int64_t e = 0; e < experts; ++e) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return p[a * experts + e] > p[b * experts + e]; });
    for (int64_t i = 0; i < taken; ++i) {
      to.idx[tokens[order[i]] * experts + e] = e;
      to.score[tokens[order[i]] * experts + e] = p[order[i] * experts + e];
    }
  }
}

struct ExpertChoice {
  template <class T>
  static void choose(const Rows<T>& rows, const Choice<T>& to) {
    for (int64_t t = 0; t < rows.tokens; t += rows.group()) choose_in_group(rows, to, t);
  }

  template <class T>
  static void weigh(const Token<T>& token, const RouteOptions&, T* weight) {
    weigh_by_softmax(token, Normalize::none, weight);
  }

  template <class T>
  static void grad(const Token<T>& token, const RouteOptions&, const TokenGrad<T>& grad) {
    grad_by_softmax(token, Normalize::none, grad);
  }
};

constexpr RouteKernel kExpertChoice = route_kernel<ExpertChoice>();

}  // namespace

extern const GateKernel expert_choice_kernel{.route = &kExpertChoice};

}  // namespace plait::kernels
