#include "gates/expert_choice/record.h"

namespace plait {

constexpr RouteSpec expert_choice_route{.name = "expert_choice", .chooser = Chooser::expert};

constexpr GateSpec expert_choice_gate{.name = "expert_choice",
                                      .help = "each expert",
                                      .route = &expert_choice_route,
                                      .keys = {"moe.jitter", "moe.z_coef"}};

}  // namespace plait
