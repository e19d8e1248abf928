// Switch (Fedus et al. 2021): the most probable expert, or a draw; its weight is its probability, never renormalised.
#pragma once
#include "gates/all/record.h"

namespace plait {

extern const RouteSpec switch_route;

}  // namespace plait
