// The same list on one rank: what a list on many must compute. Values are global arrays, so moves become nothing; what
// depends on a rank's share of tokens is told the number that a rank had.
#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace plait {

struct OneRank {
  Schedule schedule;            // on a mesh of one rank; values keep their ids and names
  std::vector<ValueId> global;  // by value of the source: the value here that is the same global array
};

// Of a forward list, or one with its backward pass, lowered or not. Gates work in the groups of tokens that ranks of
// the source have, and drop the same routes. Throws InputError for what is told by the ranks that hold it: copies of
// tokens (dup, pick) and shares of packed values (pack, unpack).
OneRank on_one_rank(const Schedule& schedule);

}  // namespace plait
