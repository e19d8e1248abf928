// Colours as "#rrggbb", and ink that can be read on them.
#pragma once
#include <string_view>

namespace plait {

// Of two colours, as WCAG 2 defines it: 1 for the same, 21 for black on white. Small words want 4.5.
double contrast(std::string_view a, std::string_view b);

// White or nearly black: what stands out more from this colour.
std::string_view ink_on(std::string_view colour);

// How far apart two colours are to an eye, about: 0 for the same, 765 for black and white.
double distance(std::string_view a, std::string_view b);

}  // namespace plait
