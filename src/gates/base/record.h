// Balanced assignment, after BASE (Lewis et al. 2021): the tokens of a gate group shared out evenly.
#pragma once
#include "gates/all/record.h"

namespace plait {

extern const RouteSpec base_route;

}  // namespace plait
