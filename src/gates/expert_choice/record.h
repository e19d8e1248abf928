// Experts choose (Zhou et al. 2022): each takes the tokens of a gate group that want it most.
#pragma once
#include "gates/all/record.h"

namespace plait {

extern const RouteSpec expert_choice_route;

}  // namespace plait
