#include "run/moves.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "base/errors.h"
#include "run/message.h"
#include "schedule/wire_bytes.h"

namespace plait {

at::Tensor RankContext::memory(int64_t bytes) const {
  return world ? world->memory(bytes) : at::empty({bytes}, at::kByte);
}

at::Tensor RankContext::zeros(at::IntArrayRef shape, at::ScalarType type) const {
  const int64_t bytes = c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(type));
  return memory(bytes).view(type).view(shape).zero_();
}

std::shared_ptr<wire::Group> Groups::over(const std::vector<Atom>& atoms) {
  std::shared_ptr<wire::Group>& group = groups_[atoms];
  if (group) return group;
  if (context_.world) {
    std::vector<int> ranks = mesh_.group(context_.rank, atoms);
    const wire::Caller caller{.lane = static_cast<int>(lane(ranks)), .lanes = context_.lanes ? kNumLanes - 1 : 0};
    return group = context_.world->group(context_.rank, std::move(ranks), caller);
  }
  expects(mesh_.ranks() == 1, "a schedule of several ranks needs a world");
  return group = wire::alone(context_.rank);
}

Lane Groups::lane(const std::vector<int>& ranks) const {
  if (!context_.lanes) return Lane::compute;
  const int node = context_.lanes->ranks_per_node;
  const auto [least, most] = std::ranges::minmax(ranks);
  return least / node == most / node ? Lane::intra : Lane::inter;
}

namespace {

Kernel all_reduce(std::shared_ptr<wire::Group> group) {
  return [group](Call& call) {
    std::vector<at::Tensor> values;
    for (size_t i = 0; i < call.num_in(); ++i) values.push_back(call.take_over(i, i));
    group->all_reduce(values);
  };
}

Kernel enter() {
  return [](Call& call) {
    for (size_t i = 0; i < call.num_in(); ++i) call.alias(i, i, call.in(i));
  };
}

}  // namespace

Kernel prepare_move(const Move& move, const StepTypes& types, Groups& groups) {
  const Collective kind = collective(move.legs);
  const MoveKind first = kinds(move.legs).front();
  if (first == MoveKind::enter && kind == Collective::none) return enter();
  std::shared_ptr<wire::Group> group = kind == Collective::none ? nullptr : groups.over(wire_atoms(move.legs));
  if (kind == Collective::all_reduce) {
    expects(types.in.size() == types.out.size(), "a sum of rows moves no cell");
    return all_reduce(group);
  }
  return prepare_message(move, types, group);
}

}  // namespace plait
