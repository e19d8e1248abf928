#include "gates/softmax/record.h"

namespace plait {

constexpr RouteSpec softmax_route{.name = "softmax"};
constexpr RouteSpec topk_softmax_route{.name = "topk_softmax"};

constexpr GateSpec softmax_gate{
    .name = "softmax",
    .help = "top-k of softmax",
    .route = &softmax_route,
    .topk_first = &topk_softmax_route,
    .keys = {"moe.order", "moe.normalize", "moe.jitter", "moe.drop", "moe.aux_coef", "moe.aux_scope", "moe.z_coef"},
    .loss = AuxLoss::means};

}  // namespace plait
