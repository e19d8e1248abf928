#include "base/collective.h"

namespace plait {

std::string_view name(Collective collective) {
  constexpr std::string_view names[kNumCollectives] = {"none",       "all_reduce", "all_gather", "reduce_scatter",
                                                       "all_to_all", "broadcast",  "barrier"};
  return names[static_cast<int>(collective)];
}

}  // namespace plait
