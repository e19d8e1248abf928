// What moves.cpp leaves to others: values of fixed size.
#pragma once
#include "run/moves.h"

namespace plait {

// Every move but enter, leave and sum, of values without rows: one that travels, or several that do not.
Kernel prepare_dense_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group);

}  // namespace plait
