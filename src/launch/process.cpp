#include "launch/process.h"

#include <algorithm>

namespace plait::launch {

size_t Process::place() const { return std::ranges::find(neighbours, rank) - neighbours.begin(); }

}  // namespace plait::launch
