// The gates that take the largest logits: top-k before or after the softmax, and Switch.
#include "kernels/cpu/gate_rows.h"
#include "schedule/draws.h"

namespace plait::kernels {
namespace {

// score[k] = the probability among all experts, or among the chosen ones.
template <class T>
void score(const T* logits, const RouteOptions& options, const int64_t* idx, std::vector<T>& p, T* to) {
  const int64_t experts = static_cast<int64_t>(p.size());
  if (options.gate != Gate::topk_softmax) {
    softmax(logits, p.data(), experts);
    for (int64_t k = 0; k < options.top_k; ++k) to[k] = p[idx[k]];
    return;
  }
  std::vector<T> chosen(options.top_k);
  for (int64_t k = 0; k < options.top_k; ++k) chosen[k] = logits[idx[k]];
  softmax(chosen.data(), to, options.top_k);
}

}  // namespace

template <class T>
void choose_softmax(const Rows<T>& rows, const Choice<T>& to) {
  const int64_t experts = rows.experts, top_k = rows.options.top_k;
  const bool sampled = rows.options.gate == Gate::switch_top1 && rows.options.rule.sample == Sample::gumbel;
  over_rows(rows.tokens, 8 * experts, [&](int64_t begin, int64_t end) {
    std::vector<T> p(experts), drawn(experts);
    for (int64_t t = begin; t < end; ++t) {
      if (!real(rows.mask, t)) continue;
      const T* logits = rows.row(t);
      for (int64_t e = 0; sampled && e < experts; ++e)
        drawn[e] = static_cast<T>(logits[e] + gumbel(rows.extras.sample(t, e)));
      largest(sampled ? drawn.data() : logits, experts, top_k, to.idx + t * top_k);
      score(logits, rows.options, to.idx + t * top_k, p, to.score + t * top_k);
    }
  });
}

template void choose_softmax(const Rows<float>&, const Choice<float>&);
template void choose_softmax(const Rows<double>&, const Choice<double>&);

}  // namespace plait::kernels
