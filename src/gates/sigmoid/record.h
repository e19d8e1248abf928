// The gate of DeepSeek-V3: the top k of sigmoid + bias, within the best groups of experts; weights without the bias.
#pragma once
#include "gates/all/record.h"

namespace plait {

extern const RouteSpec sigmoid_route;

}  // namespace plait
