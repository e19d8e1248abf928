// Reverse mode over a schedule: a forward list becomes forward + backward in one list. The transpose of every move is a
// move, so gradient synchronisation (the transpose of a parameter's enter or gather) is part of the result.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace plait {

struct Differentiated {
  Schedule schedule;                     // with the leaves of the roots' cotangents and every cotangent recorded
  std::map<ValueId, ValueId> gradients;  // parameter, or data with a gradient -> its gradient, of the dual type
  int num_forward = 0;                   // steps [0, num_forward) are the forward list
};

// A value from which the way back starts: its cotangent is a leaf of the dual type, a seed or fed as data.
struct Root {
  ValueId value;
  std::string cotangent = "seed";  // the leaf's name
  LeafKind kind = LeafKind::seed;
};

// Throws TypeFault.
Differentiated differentiate(const Schedule& forward, const std::vector<Root>& roots);

// `loss` is a scalar held I.
Differentiated differentiate(const Schedule& forward, ValueId loss);

}  // namespace plait
