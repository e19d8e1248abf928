// The work of products: what a step has to compute on any machine, from its types alone.
#pragma once
#include "schedule/schedule.h"

namespace plait {

// Floating-point operations of products and attention of all steps, as often as they run, on all ranks; rows at their
// expected number.
double total_flops(const Schedule& schedule);

}  // namespace plait
