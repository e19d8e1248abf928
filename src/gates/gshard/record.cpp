#include "gates/gshard/record.h"

namespace plait {

constexpr RouteSpec gshard_route{.name = "gshard", .queue = Queue::by_choice, .top_k = 2, .samples = true};

constexpr GateSpec gshard_gate{.name = "gshard",
                               .help = "GShard (top-2)",
                               .route = &gshard_route,
                               .keys = {"moe.sample", "moe.jitter", "moe.aux_coef", "moe.aux_scope", "moe.z_coef"},
                               .loss = AuxLoss::means,
                               .counted = 1};

}  // namespace plait
