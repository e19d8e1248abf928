// The top-2 gate of GShard (Lepikhin et al. 2020): second choices queue behind all first ones.
#pragma once
#include "gates/all/record.h"

namespace plait {

extern const RouteSpec gshard_route;

}  // namespace plait
