// Where a list's way back begins.
#pragma once
#include <string_view>

#include "schedule/schedule.h"

namespace plait {

// Whether the list holds a backward pass already: some value is the cotangent of another.
bool has_backward(const Schedule& schedule);

// The scalar that a forward list is differentiated from: the value of this name, or, without one, the first output
// that is a real scalar. InputError where there is none.
ValueId loss_of(const Schedule& schedule, std::string_view name = "");

}  // namespace plait
