// Moves on the wire: the communicating digits form the group.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "run/call.h"
#include "schedule/lanes.h"
#include "wire/group.h"

namespace plait {

// A rank's place in a world of ranks, and the type of its real numbers.
struct RankContext {
  int rank = 0;
  wire::World* world = nullptr;  // null: a world of one
  at::ScalarType dtype = at::kFloat;
  int64_t tile = kernels::kTile;        // parameters that an update works on at once
  std::optional<NodeLanes> lanes = {};  // of messages, one for each level of the network

  // Fresh bytes from where messages are fast.
  at::Tensor memory(int64_t bytes) const;
  at::Tensor zeros(at::IntArrayRef shape, at::ScalarType type) const;
};

// The groups of a rank by their atoms, made at first use; every rank of a schedule makes them in the same order.
class Groups {
 public:
  Groups(Mesh mesh, RankContext context) : mesh_(std::move(mesh)), context_(context) {}
  std::shared_ptr<wire::Group> over(const std::vector<Atom>& atoms);

 private:
  Lane lane(const std::vector<int>& ranks) const;

  Mesh mesh_;
  RankContext context_;
  std::map<std::vector<Atom>, std::shared_ptr<wire::Group>> groups_;
};

Kernel prepare_move(const Move& move, const StepTypes& types, Groups& groups);

}  // namespace plait
