// Experts choose (Zhou et al. 2022): each takes the `capacity` tokens of a gate group to which it is most probable. A
// token has one place for each expert, empty where it was not taken.
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

}  // namespace

template <class T>
void choose_by_experts(const Rows<T>& rows, const Choice<T>& to) {
  expects(rows.options.top_k == rows.experts, "route: expert choice has a place for each expert");
  for (int64_t t = 0; t < rows.tokens; t += rows.group()) choose_in_group(rows, to, t);
}

template void choose_by_experts(const Rows<float>&, const Choice<float>&);
template void choose_by_experts(const Rows<double>&, const Choice<double>&);

}  // namespace plait::kernels
