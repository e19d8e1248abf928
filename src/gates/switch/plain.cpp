#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

void choose(const Call& c, const Route& op, int64_t first, int64_t last) {
  choose_first(c, op, first, last, [&](int64_t t) {
    const std::vector<double> value = row(c.x(0), t);
    return ranked(op.rule.sample == Sample::none ? value : with_gumbel(c, op, t, value));
  });
}

constexpr PlainRoute kSwitch{choose, softmax_scores, pull_softmax, over_nothing};

}  // namespace

extern const PlainGate switch_plain{.route = &kSwitch};

}  // namespace plait::oracle
