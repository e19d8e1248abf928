// What moves.cpp leaves to others: rows of uneven number.
#pragma once
#include "run/moves.h"
#include "schedule/boxes.h"

namespace plait {

// A value's cells before and after, and what the members have in common.
Common common_cells(const StepTypes& types, size_t value, const std::vector<int>& members);
// Of a move of `values` values: the rows of this one by its cells, from the tables behind the values.
CellRows cells_before(const Call& call, size_t value, size_t values, const Common& cells);
CellRows cells_after(const Call& call, size_t value, size_t values, const Common& cells);

// Moves of rows from cells to cells: one value that travels, or several that do not.
Kernel prepare_row_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group);

}  // namespace plait
