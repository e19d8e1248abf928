// For tests: a group whose operands are first brought into the memory of their world, and results back from there.
#pragma once
#include "wire/group.h"

namespace plait::wire {

// Of which operands: some are others at each call and each member.
enum class Placing { all, some };

std::shared_ptr<Group> placed(std::shared_ptr<Group> group, World& world, Placing placing);

}  // namespace plait::wire
