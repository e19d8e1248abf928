#include "base/errors.h"
#include "gates/all/record.h"
#include "schedule/testing/plain_route.h"

namespace plait::oracle {

// softmax_plain, switch_plain, ..: each defined in its folder's plain.cpp.
#define PLAIT_GATE_PLAIN(name) extern const PlainGate name##_plain;
PLAIT_GATES(PLAIT_GATE_PLAIN)
#undef PLAIT_GATE_PLAIN

namespace {

struct Listed {
  const GateSpec* gate;
  const PlainGate* plain;
};

#define PLAIT_GATE_LISTED(name) {&name##_gate, &name##_plain},
constexpr Listed kListed[] = {PLAIT_GATES(PLAIT_GATE_LISTED)};
#undef PLAIT_GATE_LISTED

}  // namespace

const PlainRoute& plain_of(const RouteSpec& route) {
  for (const auto& [gate, plain] : kListed) {
    if (gate->route == &route && plain->route) return *plain->route;
    if (gate->topk_first == &route && plain->topk_first) return *plain->topk_first;
  }
  expects(route.plain != nullptr, fmt::format("gate {} has no plain loop", route.name));
  return *route.plain;
}

}  // namespace plait::oracle
