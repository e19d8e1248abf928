// What messages cost more among the steps of a list than in a row of their like: whoever computes in between comes at
// another moment than the others and has to be woken, and on a lane a message is handed from thread to thread.
#pragma once
#include "machine/machine.h"
#include "tune/group_clock.h"

namespace plait {

// Times MoE layers without lanes and with, and sets the overheads by which `machine` tells what they took: `meet` and
// `hand_over` of its levels, and `crowding`. Every rank calls it with the same machine and gets the same.
void measure_overheads(GroupClock& clock, wire::World& world, int per_node, Machine& machine);

}  // namespace plait
