// What a rank that is a process does around its body, over whatever wire it sends: it takes its cores, watches its
// neighbours, and turns any failure into one report a node and the end of all ranks.
#pragma once
#include <functional>

#include "launch/process.h"
#include "launch/rank_options.h"

namespace plait::launch {

// Runs the body. Any failure ends all processes, with a report on standard error and a code other than zero. InputError
// when the launcher started another number of ranks than options.ranks, or the process lacks what they ask for.
void run_process(const Process& process, const RankOptions& options, const std::function<void()>& body);

}  // namespace plait::launch
