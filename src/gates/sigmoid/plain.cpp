#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

// Sigmoid scores with the bias; -inf outside the best groups.
std::vector<double> biased(const Call& c, const Route& op, int64_t token) {
  std::vector<double> s = sigmoids(c.x(0), token);
  for (size_t e = 0; e < s.size(); ++e) s[e] += c.x(2)[static_cast<int64_t>(e)];
  const auto size = static_cast<int64_t>(s.size()) / op.rule.expert_groups;
  std::vector<double> best;
  for (int64_t g = 0; g < op.rule.expert_groups; ++g) {
    std::vector<double> group(s.begin() + g * size, s.begin() + (g + 1) * size);
    std::sort(group.rbegin(), group.rend());
    best.push_back(group[0] + (size > 1 ? group[1] : 0));
  }
  const std::vector<int64_t> order = ranked(best);
  for (int64_t i = op.rule.kept_groups; i < op.rule.expert_groups; ++i)
    std::fill_n(s.begin() + order[i] * size, size, -INFINITY);
  return s;
}

void choose(const Call& c, const Route& op, int64_t first, int64_t last) {
  choose_first(c, op, first, last, [&](int64_t t) { return ranked(biased(c, op, t)); });
}

constexpr PlainRoute kSigmoid{choose, sigmoid_scores, pull_sigmoid, over_as_asked};

}  // namespace

extern const PlainGate sigmoid_plain{.route = &kSigmoid};

}  // namespace plait::oracle
