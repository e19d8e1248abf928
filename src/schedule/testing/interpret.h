// The oracle of the schedule room: performs a lowered schedule on simulated ranks by plain loops in float64. A move
// gives each rank only what its peers hold; a sender of rows reads its own table, a receiver only its own.
#pragma once
#include <map>

#include "schedule/schedule.h"
#include "schedule/testing/array.h"

namespace plait::oracle {

// Global arrays of the leaves. A leaf with several runs in a repeated section one after another, a sum starts at zero.
using Feed = std::map<ValueId, std::vector<Array>>;

struct Execution {
  Types types;
  std::vector<PerRank> values;  // by ValueId
  // By the result of a move of cells: rows[r][q] rows went from rank r to rank q.
  std::map<ValueId, std::vector<std::vector<double>>> rows;
};

Execution interpret(const Schedule& schedule, const Feed& feed);

// The global array of a value without a jagged dim.
Array global(const Schedule& schedule, const Execution& run, ValueId value);

// Rows per cell of a routing as its count recorded them, over all cells.
Array recorded_table(const Schedule& schedule, const Execution& run, const std::string& routing);

}  // namespace plait::oracle
