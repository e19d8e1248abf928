// Every rank a thread of this process; see wire/ranks.h.
#pragma once
#include "wire/rank_body.h"

namespace plait::wire {

// InputError too where the system does not start a thread for every rank.
void run_threads(const RankOptions& options, RankBody body);

}  // namespace plait::wire
