// What a plan says of a training step, as text: the choice of its schedule, and the seconds of every kind of step.
#pragma once
#include <string>

#include "train/explain.h"
#include "tune/schedule_choice.h"

namespace plait {

// "schedule chosen on a laptop", "schedule found by trial", ..
std::string choice_title(const ChosenSchedule& chosen);

// Without measured seconds only the prediction.
std::string explanation_text(const ChosenSchedule& chosen, const Explanation& explanation);

}  // namespace plait
