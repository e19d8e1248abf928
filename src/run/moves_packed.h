// What moves.cpp leaves to others: several values in one message.
#pragma once
#include "run/moves.h"

namespace plait {

// gather, join, scatter, exchange and what fuses with it, of several values of fixed size or several of rows: each
// member's parts of all values lie one after the other.
Kernel prepare_packed_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group);

}  // namespace plait
