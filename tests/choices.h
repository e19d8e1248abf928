// Whether what a test compares hangs on last bits: near choices of gates in the steps that it takes.
#pragma once
#include <string>

#include "config/config.h"
#include "data/corpus.h"

namespace plait {

inline constexpr double kMargin = 1e-9;

// Of every gate in the steps that `verify` takes, on one rank: empty where all choices have the margin kMargin (see
// margin.h), else the first that has none, with its optimizer and step.
std::string near_choice(const Config& config, const data::Corpus& corpus, int steps = 3);

}  // namespace plait
