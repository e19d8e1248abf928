// Within a gate group every expert gets an equal share of the tokens, at most one more, such that the sum of the
// affinities is the greatest possible. Tokens come one at a time; each finds the cheapest chain "it takes my place, I
// take another's, who takes a free one" (a shortest augmenting path over experts). Whole numbers throughout, so equal
// sums are equal: ties go to the lower expert.
#include "gates/all/kernel.h"

#include <limits>
#include <optional>

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;

// The affinities of a group's real tokens, [n, E], as multiples of the greatest's 2^-40.
template <class T>
std::vector<int64_t> affinities(const Rows<T>& rows, const std::vector<int64_t>& tokens) {
  T greatest = 0;
  for (int64_t t : tokens)
    for (int64_t e = 0; e < rows.experts; ++e) greatest = std::max(greatest, std::abs(rows.row(t)[e]));
  int exponent = 0;
  std::frexp(greatest, &exponent);
  std::vector<int64_t> scaled;
  for (int64_t t : tokens)
    for (int64_t e = 0; e < rows.experts; ++e)
      scaled.push_back(std::llround(std::ldexp(static_cast<double>(rows.row(t)[e]), 40 - exponent)));
  return scaled;
}

class Assignment {
 public:
  Assignment(std::vector<int64_t> affinity, int64_t experts)
      : affinity_(std::move(affinity)),
        experts_(experts),
        num_tokens_(static_cast<int64_t>(affinity_.size()) / experts),
        share_(num_tokens_ / experts),
        held_(experts),
        step_(experts * experts, kFar),
        mover_(experts * experts, -1) {}

  // The tokens of each expert.
  const std::vector<std::vector<int64_t>>& solve() {
    for (int64_t n = 0; n < num_tokens_; ++n) place(n);
    return held_;
  }

 private:
  // The first num_tokens / experts places of each expert must be filled, then one more each may be.
  bool filling() const { return placed_ < share_ * experts_; }
  bool open(int64_t e) const { return static_cast<int64_t>(held_[e].size()) < share_ + (filling() ? 0 : 1); }

  int64_t affinity(int64_t n, int64_t e) const { return affinity_[n * experts_ + e]; }

  void place(int64_t n) {
    const int64_t* a = affinity_.data() + n * experts_;
    const int64_t best = std::max_element(a, a + experts_) - a;
    // While places must be filled, no chain beats the best expert's own free place.
    if (filling() && open(best)) return put(n, best), void(++placed_);
    std::vector<int64_t> cost(experts_), before(experts_, -1);
    for (int64_t e = 0; e < experts_; ++e) cost[e] = -a[e];
    shorten(cost, before);
    std::optional<int64_t> last;
    for (int64_t e = 0; e < experts_; ++e)
      if (open(e) && (!last || cost[e] < cost[*last])) last = e;
    for (int64_t e = *last; before[e] >= 0; e = before[e]) {
      const int64_t moved = mover_[before[e] * experts_ + e];
      take(moved, before[e]);
      put(moved, e);
      *last = before[e];
    }
    put(n, *last);
    ++placed_;
  }

  // Bellman and Ford; an assignment that was best so far has no chain that gains by coming back.
  void shorten(std::vector<int64_t>& cost, std::vector<int64_t>& before) const {
    for (bool changed = true; changed;) {
      changed = false;
      for (int64_t from = 0; from < experts_; ++from)
        for (int64_t to = 0; to < experts_; ++to) {
          const int64_t through = cost[from] + step_[from * experts_ + to];
          if (through >= cost[to]) continue;
          cost[to] = through;
          before[to] = from;
          changed = true;
        }
    }
  }

  // step_[a, b]: what the cheapest of a's tokens loses when it moves to b.
  void offer(int64_t n, int64_t from) {
    for (int64_t to = 0; to < experts_; ++to) {
      const int64_t loss = affinity(n, from) - affinity(n, to);
      if (to == from || loss >= step_[from * experts_ + to]) continue;
      step_[from * experts_ + to] = loss;
      mover_[from * experts_ + to] = n;
    }
  }

  void put(int64_t n, int64_t e) {
    held_[e].push_back(n);
    offer(n, e);
  }

  void take(int64_t n, int64_t e) {
    std::erase(held_[e], n);
    std::fill_n(step_.begin() + e * experts_, experts_, kFar);
    for (int64_t other : held_[e]) offer(other, e);
  }

  std::vector<int64_t> affinity_;
  int64_t experts_, num_tokens_, share_, placed_ = 0;
  std::vector<std::vector<int64_t>> held_;
  std::vector<int64_t> step_, mover_;
};

template <class T>
void assign_group(const Rows<T>& rows, const Choice<T>& to, int64_t first) {
  std::vector<int64_t> tokens;
  for (int64_t t = first; t < first + rows.group(); ++t)
    if (real(rows.mask, t)) tokens.push_back(t);
  std::vector<int64_t> affinity = affinities(rows, tokens);
  const auto give = [&](int64_t token, int64_t e) {
    to.idx[token] = e;
    to.score[token] = sigmoid(rows.row(token)[e]);
  };
  if (tokens.size() == 1) return give(tokens[0], std::ranges::max_element(affinity) - affinity.begin());
  Assignment assignment(std::move(affinity), rows.experts);
  int64_t e = 0;
  for (const std::vector<int64_t>& held : assignment.solve()) {
    for (int64_t n : held) give(tokens[n], e);
    ++e;
  }
}

struct Base {
  template <class T>
  static void choose(const Rows<T>& rows, const Choice<T>& to) {
    for (int64_t t = 0; t < rows.tokens; t += rows.group()) assign_group(rows, to, t);
  }

  static SigmoidWeights weights(const RouteOptions& options) { return {Normalize::none, options.rule.scaling}; }

  template <class T>
  static void weigh(const Token<T>& token, const RouteOptions& options, T* weight) {
    weigh_by_sigmoid(token, weights(options), weight);
  }

  template <class T>
  static void grad(const Token<T>& token, const RouteOptions& options, const TokenGrad<T>& grad) {
    grad_by_sigmoid(token, weights(options), grad);
  }
};

constexpr RouteKernel kBase = route_kernel<Base>();

}  // namespace

extern const GateKernel base_kernel{.route = &kBase};

}  // namespace plait::kernels
