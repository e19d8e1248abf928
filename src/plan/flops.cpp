#include "plan/flops.h"

namespace plait {

double total_flops(const Schedule& schedule) {
  const Types types = check(schedule);
  double sum = 0;
  for (int i = 0; i < static_cast<int>(schedule.steps.size()); ++i) {
    const bool again = schedule.repeat && schedule.repeat->first <= i && i < schedule.repeat->last;
    const Step& step = schedule.steps[static_cast<size_t>(i)];
    sum += (again ? schedule.repeat->times : 1) * traits_of(step.op).cost.flops({schedule.mesh, types, step});
  }
  return sum * schedule.mesh.ranks();
}

}  // namespace plait
