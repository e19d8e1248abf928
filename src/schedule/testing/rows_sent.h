// The rows of a move by the plan of its messages, rank by rank: what the oracle and the wire must find too.
#pragma once
#include "schedule/testing/transfer.h"

namespace plait::oracle {

// rows[r][q] = rows that rank r sends to rank q, from a table of rows per cell, row-major over all cells of
// `move.from`. A sum counts as reduce_scatter and all_gather.
std::vector<std::vector<double>> rows_sent(const Mesh& mesh, const RowsMove& move, const std::vector<double>& table);

}  // namespace plait::oracle
