#include "gates/hash/kernel.h"

#include "gates/all/kernel.h"
#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {

extern const GateKernel hash_kernel{};  // an op of its own

void route_by_hash(const HashedTokens& tokens, const RouteOptions& options, const Routes& to) {
  const int64_t size = tokens.ids_T.numel(), experts = tokens.experts, top_k = options.top_k;
  expects(top_k >= 1 && top_k <= experts, "route: top_k is between 1 and the number of experts");
  expects(options.drop == Drop::none || (options.group > 0 && size % options.group == 0),
          "route: the tokens are not equal gate groups");
  const int64_t *ids = in<int64_t>(tokens.ids_T), *mask = mask_of(tokens.mask_T, size);
  by_dtype(to.weight_TK, [&]<class T>(T) {
    T* weight = out<T>(to.weight_TK);
    int64_t *idx = out<int64_t>(to.idx_TK), *slot = out<int64_t>(to.slot_TK);
    for (int64_t r = 0; r < size * top_k; ++r)
      idx[r] = real(mask, r / top_k) ? (ids[r / top_k] + r % top_k) % experts : -1;
    const GateExtras none;
    give_all_slots<T>({nullptr, nullptr, mask, size, experts, options, none}, {idx, weight}, slot);
    for (int64_t r = 0; r < size * top_k; ++r) weight[r] = slot[r] < 0 ? T{0} : T{1} / static_cast<T>(top_k);
  });
}

}  // namespace plait::kernels
