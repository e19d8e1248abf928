// Small things about words, for messages a person reads.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace plait {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance, the first of equals; empty when there is none within a third of the longer
// word.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

std::string join(std::span<const std::string> parts, std::string_view between);

// What a terminal shows in one column: code points of UTF-8.
size_t display_width(std::string_view text);

}  // namespace plait
