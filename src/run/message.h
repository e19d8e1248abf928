// Performs a MessagePlan: pack, one collective, unpack. Nothing is packed where the parts already lie in order.
#pragma once
#include "run/call.h"
#include "wire/group.h"

namespace plait {

// Every move but enter and sums. `group`: null where nothing travels.
Kernel prepare_message(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group);

}  // namespace plait
