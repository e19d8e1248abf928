// The frequencies of rotary positions, stretched as a config says.
#pragma once
#include <vector>

#include "schedule/choices.h"

namespace plait {

// Radians that pair i of a head turns by from one position to the next, i < head_size / 2.
std::vector<double> rope_frequencies(int64_t head_size, double theta, const RopeScaling& scaling);

// What rotated queries and keys are multiplied by.
double rope_amplitude(const RopeScaling& scaling);

}  // namespace plait
