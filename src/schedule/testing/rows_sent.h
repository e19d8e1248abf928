// The rows of every pair of ranks in a move of cells, counted without the code that cuts messages.
#pragma once
#include <vector>

#include "schedule/schedule.h"

namespace plait::oracle {

// From a table of rows per cell (recorded or a load profile), row-major over all of `prefix`: rows[r][q] = rows that
// rank r sends to rank q; an all_reduce counts as reduce_scatter + all_gather.
struct RaggedMove {
  std::vector<Dim> from, to;  // the prefix before and after
  Legs legs;
};
std::vector<std::vector<double>> rows_sent(const Mesh& mesh, const RaggedMove& move, const std::vector<double>& table);

}  // namespace plait::oracle
