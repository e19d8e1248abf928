#include "gates/all/record.h"

namespace plait {

const Gates& built_in_gates() {
#define PLAIT_GATE_ADDRESS(name) &name##_gate,
  static const Gates all = {PLAIT_GATES(PLAIT_GATE_ADDRESS)};
#undef PLAIT_GATE_ADDRESS
  return all;
}

const GateSpec* find_gate(const Gates& gates, std::string_view name) {
  const auto it = std::find_if(gates.begin(), gates.end(), [&](const GateSpec* g) { return g->name == name; });
  return it == gates.end() ? nullptr : *it;
}

const RouteSpec* find_route(const Gates& gates, std::string_view name) {
  for (const GateSpec* gate : gates)
    for (const RouteSpec* route : {gate->route, gate->topk_first})
      if (route && route->name == name) return route;
  return nullptr;
}

}  // namespace plait
