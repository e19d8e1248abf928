// What a plan says of a training step, as text: the choice of its schedule, and the seconds of every kind of step.
#pragma once
#include <string>

#include "train/explain.h"
#include "tune/schedule_choice.h"

namespace plait {

// "schedule chosen on a laptop", "schedule found by trial", ..
std::string choice_title(const ChosenSchedule& chosen);

// What a plan of so many ranks is told by: whether it was measured, and on fewer.
std::string machine_text(const Machine& machine, int ranks);

// What of such a plan a measured machine does not know; empty where it knows all.
std::string beyond_measured(const Machine& machine, int ranks);

// Begins with the machine. Without measured seconds only the prediction.
std::string explanation_text(const ChosenSchedule& chosen, const Explanation& explanation);

}  // namespace plait
