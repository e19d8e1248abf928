// Where steps run in time: compute, and one wire lane for each level of the network. The list's order is the issue
// order; a step starts when the steps that wrote its inputs have ended and the previous step of its lane has ended.
#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace plait {

enum class Lane { compute, intra, inter };  // intra: messages within a node, inter: messages between nodes
inline constexpr int kNumLanes = 3;
std::string_view name(Lane lane);

// By step. A move takes the lane of the slowest level that it crosses; one that does not communicate is computing.
std::vector<Lane> lanes(const Schedule& schedule, int ranks_per_node);

// Whether the results of an op may share memory with its operands: they count as one when that memory is written.
bool may_alias(const Op& op);

// By step: the steps of other lanes that must have ended before it starts, beside what its own lane's order gives: the
// makers of its operands, and the earlier readers of what it overwrites or frees.
std::vector<std::vector<int>> waits(const Schedule& schedule, const std::vector<Lane>& lanes);

}  // namespace plait
