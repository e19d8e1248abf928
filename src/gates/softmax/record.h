// The top k of the softmax over all experts, or the softmax over the top k logits.
#pragma once
#include "gates/all/record.h"

namespace plait {

extern const RouteSpec softmax_route, topk_softmax_route;

}  // namespace plait
