// Hash routing (Roller et al. 2021): choice k of a token is expert (id + k) mod E, of weight 1/K.
#pragma once
#include "gates/all/record.h"

namespace plait {

extern const RouteSpec hash_route;

}  // namespace plait
