// Small things about words, for messages a person reads.
#pragma once
#include <cstddef>
#include <optional>
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

bool is_utf8(std::string_view text);

// Any bytes as letters of ASCII, and back: what is no printable one, and '%', as %E9. Nothing for a '%' without two hex
// digits.
std::string percent_encoded(std::string_view bytes);
std::optional<std::string> percent_decoded(std::string_view text);

// What a terminal shows in one column: code points of UTF-8.
size_t display_width(std::string_view text);

}  // namespace plait
