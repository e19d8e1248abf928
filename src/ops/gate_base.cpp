// Balanced assignment, after BASE (Lewis et al. 2021): within a gate group every expert gets an equal share of the
// tokens, at most one more. Pairs are settled greedily in falling order of affinity, which need not be the best
// assignment.
#include "ops/gate_rows.h"

namespace plait::ops {
namespace {

template <class T>
void assign_group(const Rows<T>& rows, const Choice<T>& to, int64_t first) {
  const int64_t experts = rows.experts;
  std::vector<int64_t> pairs;  // token * E + expert
  for (int64_t t = first; t < first + rows.group(); ++t)
    for (int64_t e = 0; real(rows.mask, t) && e < experts; ++e) pairs.push_back(t * experts + e);
  const int64_t tokens = static_cast<int64_t>(pairs.size()) / experts, room = (tokens + experts - 1) / experts;
  std::stable_sort(pairs.begin(), pairs.end(), [&](int64_t a, int64_t b) { return rows.logits[a] > rows.logits[b]; });
  std::vector<int64_t> load(experts);
  for (int64_t pair : pairs) {
    const int64_t t = pair / experts, e = pair % experts;
    if (to.idx[t] >= 0 || load[e] == room) continue;
    to.idx[t] = e;
    to.score[t] = sigmoid(rows.logits[pair]);
    ++load[e];
  }
}

}  // namespace

template <class T>
void choose_balanced(const Rows<T>& rows, const Choice<T>& to) {
  for (int64_t t = 0; t < rows.tokens; t += rows.group()) assign_group(rows, to, t);
}

template void choose_balanced(const Rows<float>&, const Choice<float>&);
template void choose_balanced(const Rows<double>&, const Choice<double>&);

}  // namespace plait::ops
