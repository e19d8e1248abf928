// What a plan says of a training step, as text: the choice of its schedule, and the seconds of every kind of step.
#pragma once
#include <string>

#include "train/explain.h"
#include "train/schedule_choice.h"

namespace plait {

// Without measured seconds only the prediction.
std::string explanation_text(const ChosenSchedule& chosen, const Explanation& explanation);

}  // namespace plait
