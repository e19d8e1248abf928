// Where steps run in time: compute, and one wire lane for each level of the network. The list's order is the issue
// order; a step starts when the steps that wrote its inputs have ended and the previous step of its lane has ended.
#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace plait {

enum class Lane : int { compute, intra, inter };  // intra: messages within a node, inter: messages between nodes
inline constexpr int kNumLanes = 3;
std::string_view name(Lane lane);

// Nodes of so many ranks, where messages have lanes; who has none performs them in the thread that computes.
struct NodeLanes {
  int ranks_per_node = 1;
  bool operator==(const NodeLanes&) const = default;
};

// By step. A move takes the lane of the slowest level that it crosses; one that does not communicate is computing.
std::vector<Lane> lanes(const Schedule& schedule, int ranks_per_node);

// Results that may lie in the memory of an operand that lives on: they count as one when that memory is written.
std::vector<Sharing> aliases(const Step& step);

// What lanes ask of a list, beside the order of each lane.
struct LaneRules {
  // By step: the steps of other lanes that must have ended before it starts: the makers of its operands, and the
  // earlier readers of memory that it updates in place.
  std::vector<std::vector<int>> waits;
  // By step: the values that it ends. It follows, by waits and lane order, all who read them or their memory before; it
  // is the last reader itself, or the first step after it of which that is so. Values without such a step in their part
  // of the list (a repeated section, what stands before or after it) live to the end of that part.
  std::vector<std::vector<ValueId>> ends;
};
LaneRules lane_rules(const Schedule& schedule, const std::vector<Lane>& lanes);

}  // namespace plait
