#include "gates/switch/record.h"

namespace plait {

constexpr RouteSpec switch_route{.name = "switch", .top_k = 1, .samples = true};

constexpr GateSpec switch_gate{
    .name = "switch",
    .help = "Switch (top-1)",
    .route = &switch_route,
    .keys = {"moe.sample", "moe.jitter", "moe.drop", "moe.aux_coef", "moe.aux_scope", "moe.z_coef"},
    .normalize = Normalize::none,
    .loss = AuxLoss::means};

}  // namespace plait
