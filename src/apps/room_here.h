// What a verb says, before it works, of a config and of the machine that it stands on: each line once, on standard
// error, by the first of several processes.
#pragma once
#include "machine/machine_of.h"

namespace plait {

// LibTorch counts the machine's processors: what computes outside of ranks takes those that this process may use.
void take_cores_here();

// Keys that were set and have no effect.
void tell_idle_keys(const Config& config);

// Before ranks run here: InputError where their number is not the launcher's, or the system does not let their threads
// be started.
void expect_threads_here(const Config& config);

// Before ranks run here: InputError where their memory is over memory.limit, or more than this node has left; a line
// where it is nearly all.
void expect_memory_here(const Planned& run);

// Before something is planned, maybe for another machine: InputError where it is over memory.limit; a line where it
// would not run here.
void tell_memory(const Planned& run);

}  // namespace plait
