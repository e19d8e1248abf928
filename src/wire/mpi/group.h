// Collectives between ranks of several nodes, over MPI: each is written as messages between pairs, so that every wait
// has a deadline, sums have one order on all wires, and who has not arrived is known.
#pragma once
#include "wire/mpi/runtime.h"
#include "wire/node/group.h"

namespace plait::wire {

// Deadlines, mismatches and failures of MPI are CommError; after one the process must end, since MPI may still hold
// memory of the messages.
std::shared_ptr<Group> mpi_group(MemberOptions options, std::shared_ptr<MpiRuntime::Channel> channel);

}  // namespace plait::wire
