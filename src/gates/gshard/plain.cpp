#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

std::vector<int64_t> two(const Call& c, const Route& op, int64_t token) {
  const std::vector<double> value = row(c.x(0), token);
  const std::vector<int64_t> plain = ranked(value);
  if (op.rule.sample == Sample::none) return plain;
  const std::vector<int64_t> drawn = ranked(with_gumbel(c, op, token, value));
  return {plain[0], drawn[0] == plain[0] ? drawn[1] : drawn[0]};
}

void choose(const Call& c, const Route& op, int64_t first, int64_t last) {
  choose_first(c, op, first, last, [&](int64_t t) { return two(c, op, t); });
}

constexpr PlainRoute kGshard{choose, softmax_scores, pull_softmax, over_kept};

}  // namespace

extern const PlainGate gshard_plain{.route = &kGshard};

}  // namespace plait::oracle
