// What moves.cpp leaves to others: rows of uneven number.
#pragma once
#include "run/moves.h"

namespace plait {

// Moves of rows from cells to cells: operands (rows, table as they are held, table as they will be held).
Kernel prepare_row_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group);

}  // namespace plait
