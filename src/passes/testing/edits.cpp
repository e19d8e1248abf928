#include "passes/testing/edits.h"

#include <algorithm>

#include "base/errors.h"

namespace plait::oracle {

int find_step(const Schedule& schedule, std::string_view title, int nth) {
  std::vector<int> hits;
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    if (schedule.title(schedule.steps[i]) == title) hits.push_back(static_cast<int>(i));
  const int at = nth < 0 ? static_cast<int>(hits.size()) + nth : nth;
  expects(at >= 0 && at < static_cast<int>(hits.size()),
          fmt::format("the schedule has a step {} number {}", title, nth));
  return hits[at];
}

void read_instead(Schedule& schedule, ValueId old, ValueId now, int from_step) {
  for (size_t i = from_step; i < schedule.steps.size(); ++i)
    std::replace(schedule.steps[i].in.begin(), schedule.steps[i].in.end(), old, now);
  std::replace(schedule.outputs.begin(), schedule.outputs.end(), old, now);
}

void drop_step(Model& model, int index) {
  const Step step = model.schedule.steps[index];
  model.schedule.steps.erase(model.schedule.steps.begin() + index);
  read_instead(model.schedule, step.out[0], step.in[0]);
  for (ValueId* v : {&model.y, &model.loss})
    if (*v == step.out[0]) *v = step.in[0];
}

Legs& legs_of(Schedule& schedule, int index) { return std::get<Move>(schedule.steps[index].op).legs; }

ValueId insert_step(Schedule& schedule, int index, Op op, std::vector<ValueId> in) {
  const ValueId made = schedule.add_value(fmt::format("edit{}", schedule.names.size()));
  schedule.steps.insert(schedule.steps.begin() + index, Step{std::move(op), std::move(in), {made}});
  return made;
}

void insert_after(Model& model, int index, Op op) {
  const ValueId old = model.schedule.steps[index].out[0];
  const ValueId made = insert_step(model.schedule, index + 1, std::move(op), {old});
  read_instead(model.schedule, old, made, index + 2);
  if (model.loss == old) model.loss = made;
}

}  // namespace plait::oracle
