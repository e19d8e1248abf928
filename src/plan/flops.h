// The work of products: what a step has to compute on any machine, from its types alone.
#pragma once
#include "schedule/schedule.h"

namespace plait {

// Floating-point operations of a step's matrix products or attention on one rank, rows at their expected number; 0 for
// all other ops.
double product_flops(const Schedule& schedule, const Types& types, const Step& step);

// Of all steps as often as they run, on all ranks.
double total_flops(const Schedule& schedule);

}  // namespace plait
