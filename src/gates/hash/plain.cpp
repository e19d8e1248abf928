#include "schedule/testing/plain_route.h"

namespace plait::oracle {

extern const PlainGate hash_plain{};  // an op of its own

void compute(const Call& c, const HashRoute& op) {
  const int64_t tokens = c.x(0).size(), group = op.group ? op.group : std::max<int64_t>(tokens, 1);
  for (int64_t first = 0; first < tokens; first += group) {
    std::vector<int64_t> load(op.experts, 0);
    for (int64_t route = first * op.top_k; route < (first + group) * op.top_k; ++route) {
      const int64_t t = route / op.top_k, e = (static_cast<int64_t>(c.x(0)[t]) + route % op.top_k) % op.experts;
      const bool real = c.x(1)[t] != 0, kept = real && (op.capacity == 0 || load[e] < op.capacity);
      c.y(1)[route] = real ? static_cast<double>(e) : -1;
      c.y(2)[route] = kept ? static_cast<double>(load[e]++) : -1;
      c.y(0)[route] = kept ? 1 / static_cast<double>(op.top_k) : 0;
    }
  }
}

}  // namespace plait::oracle
