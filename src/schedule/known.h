// What a list may name beside Plait's own ops.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "gates/all/record.h"

namespace plait {

struct ExternalOp;

// Gates, which a route names; ops from outside. Both outlive every list that names them.
struct Known {
  const Gates& gates = built_in_gates();
  std::span<const ExternalOp* const> ops = {};
};

// Of each way to choose that a route may name, in the order of the gates.
std::vector<std::string> route_names(const Gates& gates);

}  // namespace plait
