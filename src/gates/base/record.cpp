#include "gates/base/record.h"

namespace plait {

constexpr RouteSpec base_route{.name = "base", .chooser = Chooser::group, .top_k = 1};

constexpr GateSpec base_gate{
    .name = "base", .help = "equal shares", .route = &base_route, .keys = {"moe.jitter", "moe.drop", "moe.z_coef"}};

}  // namespace plait
