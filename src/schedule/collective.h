// The kinds of messages within a group of ranks: what moves become, what machines are measured in, what wires carry.
#pragma once
#include <string_view>

namespace plait {

enum class Collective { none, all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, barrier };
inline constexpr int kNumCollectives = 7;
std::string_view name(Collective collective);

}  // namespace plait
