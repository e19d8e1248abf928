#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

void choose(const Call& c, const Route& op, int64_t first, int64_t last) {
  const int64_t experts = c.x(0).shape.back();
  for (int64_t e = 0; e < experts; ++e) {
    std::vector<double> p;
    for (int64_t t = first; t < last; ++t) p.push_back(c.x(1)[t] == 0 ? -1 : softmax(c.x(0), t)[e]);
    const std::vector<int64_t> order = ranked(p);
    for (int64_t i = 0; i < std::min<int64_t>(op.capacity, last - first); ++i)
      if (p[order[i]] >= 0) c.y(1)[(first + order[i]) * experts + e] = static_cast<double>(e);
  }
}

constexpr PlainRoute kExpertChoice{choose, softmax_scores, pull_softmax, over_nothing};

}  // namespace

extern const PlainGate expert_choice_plain{.route = &kExpertChoice};

}  // namespace plait::oracle
