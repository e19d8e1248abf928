#include "passes/loss.h"

#include <algorithm>

#include "base/errors.h"
#include "base/text.h"

namespace plait {

bool has_backward(const Schedule& schedule) { return !schedule.cotangent_of.empty(); }

ValueId loss_of(const Schedule& schedule, std::string_view name) {
  const Types types = check(schedule);
  const auto is_loss = [&](ValueId v) {
    const std::vector<Hold>& holds = types[v].holds;
    return types[v].grad && types[v].dims.empty() && std::ranges::count(holds, Hold::I) == std::ssize(holds);
  };
  if (name.starts_with('%')) name.remove_prefix(1);
  if (const ValueId v = schedule.find(name); !name.empty()) {
    const std::string near = nearest(name, schedule.names);
    if (v < 0) input_error("loss %{}: no such value{}", name, near.empty() ? "" : "; did you mean %" + near + "?");
    if (!is_loss(v))
      input_error("loss %{}: is {}, expected real [], held I on every axis", name, to_string(schedule.mesh, types[v]));
    return v;
  }
  const auto loss = std::ranges::find_if(schedule.outputs, is_loss);
  if (loss == schedule.outputs.end())
    input_error("no output is a loss, real [], held I on every axis: name one in the line outputs, or say --loss NAME");
  return *loss;
}

}  // namespace plait
