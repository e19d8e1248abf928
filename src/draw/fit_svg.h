// What messages took and the lines through it, as one self-contained SVG: a panel for each shape of group, both axes
// logarithmic, a colour for each collective. Reads on light and on dark pages.
#pragma once
#include <string>

#include "machine/measured.h"

namespace plait {

std::string draw_fits(const Measured& measured, const std::string& title);

}  // namespace plait
