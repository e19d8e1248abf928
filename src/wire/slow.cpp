#include "wire/slow.h"

#include <thread>

namespace plait::wire {

std::shared_ptr<Group> SlowWorld::group(int rank, std::vector<int> members, Caller caller) {
  return watched(PassingWorld::group(rank, members, caller),
                 [this, members](Collective, double bytes) { std::this_thread::sleep_for(delay_(members, bytes)); });
}

}  // namespace plait::wire
