#include "gates/hash/record.h"

namespace plait {

constexpr RouteSpec hash_route{.name = "hash", .reads = Reads::ids};

constexpr GateSpec hash_gate{.name = "hash", .help = "a hash of the id", .route = &hash_route};

}  // namespace plait
