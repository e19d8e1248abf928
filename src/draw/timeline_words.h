// What a picture says of itself in words, so that nothing in it is left to guess.
#pragma once
#include "draw/timeline.h"

namespace plait {

// Whether a message waits for its group: the pale part of its box.
bool shows_waiting(std::span<const Drawing> drawings);

bool shows_path(std::span<const Drawing> drawings);  // the critical path

// Sentences about the names of parts, the rows, their percentages and the words in boxes: of what is drawn, no more.
std::vector<std::string> words_of(std::span<const Drawing> drawings);

}  // namespace plait
