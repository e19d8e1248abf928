// What a group of ranks does together: the kinds of messages that schedules ask for, plans price and wires carry.
#pragma once
#include <string_view>

namespace plait {

// The first five are those of moves; with the last two the ranks of a run agree.
enum class Collective { none, all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, barrier };
inline constexpr int kNumCollectives = 7;

std::string_view name(Collective collective);

}  // namespace plait
