// The gate of fixed hashing, as `options` say of top_k, drop (none or position), capacity and group; ids are int64. See
// HashRoute.
#pragma once
#include "kernels/cpu/gate.h"

namespace plait::kernels {

struct HashedTokens {
  at::Tensor ids_T, mask_T;
  int64_t experts = 1;
};
void route_by_hash(const HashedTokens& tokens, const RouteOptions& options, const Routes& out);

}  // namespace plait::kernels
