#include "schedule/known.h"

#include <algorithm>

namespace plait {

std::vector<std::string> route_names(const Gates& gates) {
  std::vector<std::string> names;
  for (const GateSpec* gate : gates)
    for (const RouteSpec* route : {gate->route, gate->topk_first})
      if (route && std::ranges::find(names, route->name) == names.end()) names.emplace_back(route->name);
  return names;
}

}  // namespace plait
