#include "gates/sigmoid/record.h"

namespace plait {

constexpr RouteSpec sigmoid_route{.name = "sigmoid", .bias = true, .limits_groups = true};

constexpr GateSpec sigmoid_gate{
    .name = "sigmoid",
    .help = "sigmoid + bias",
    .route = &sigmoid_route,
    .keys = {"moe.normalize", "moe.jitter", "moe.expert_groups", "moe.kept_groups", "moe.routed_scaling",
             "moe.bias_rate", "moe.drop", "moe.aux_coef", "moe.z_coef"},
    .loss = AuxLoss::of_each_sequence,
    .aux_coef = 0,
    .score = Score::sigmoid};

}  // namespace plait
