// Every rank a thread of this process; see wire/ranks.h.
#pragma once
#include "wire/rank_body.h"

namespace plait::wire {

void run_threads(const RankOptions& options, RankBody body);

}  // namespace plait::wire
