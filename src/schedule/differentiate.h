// Reverse mode over a schedule: a forward list becomes forward + backward in one list. The transpose of every move is a
// move, so gradient synchronisation (the transpose of a parameter's enter or gather) is part of the result.
#pragma once
#include <map>

#include "schedule/schedule.h"

namespace plait {

struct Differentiated {
  Schedule schedule;                     // with a leaf `seed` (the cotangent of the loss) and every cotangent recorded
  std::map<ValueId, ValueId> gradients;  // parameter leaf -> its gradient, of the dual of the parameter's type
  int num_forward = 0;                   // steps [0, num_forward) are the forward list
};

// `loss` is a scalar held I. Throws TypeFault.
Differentiated differentiate(const Schedule& forward, ValueId loss);

}  // namespace plait
