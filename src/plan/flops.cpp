#include "plan/flops.h"

#include "plan/products.h"

namespace plait {
namespace {

// `products` products of a causal square: half of 2 S^2 A each.
double attention_flops(const Mesh& mesh, const Type& q, double products) {
  return products * static_cast<double>(local_elements(mesh, q)) * static_cast<double>(local_size(mesh, *q.find("S")));
}

}  // namespace

double product_flops(const Schedule& schedule, const Types& types, const Step& step) {
  if (as<Einsum>(step.op)) return product_size(schedule.mesh, step, types).flops();
  if (as<Attention>(step.op)) return attention_flops(schedule.mesh, types[step.in[0]], 2);
  if (as<AttentionGrad>(step.op)) return attention_flops(schedule.mesh, types[step.in[0]], 5);
  return 0;
}

double total_flops(const Schedule& schedule) {
  const Types types = check(schedule);
  double sum = 0;
  for (int i = 0; i < static_cast<int>(schedule.steps.size()); ++i) {
    const bool again = schedule.repeat && schedule.repeat->first <= i && i < schedule.repeat->last;
    const double runs = again ? schedule.repeat->times : 1;
    sum += runs * product_flops(schedule, types, schedule.steps[static_cast<size_t>(i)]);
  }
  return sum * schedule.mesh.ranks();
}

}  // namespace plait
