#include "draw/colour.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/errors.h"

namespace plait {
namespace {

constexpr std::string_view kLight = "#ffffff", kDark = "#111111";

std::array<double, 3> channels(std::string_view colour) {
  expects(colour.size() == 7 && colour[0] == '#', "channels: a colour is #rrggbb");
  std::array<double, 3> all = {};
  for (size_t i = 0; i < 3; ++i) {
    int value = 0;
    std::from_chars(colour.data() + 1 + 2 * i, colour.data() + 3 + 2 * i, value, 16);
    all[i] = value;
  }
  return all;
}

double linear(double channel) {
  const double c = channel / 255;
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}

double luminance(std::string_view colour) {
  const auto [r, g, b] = channels(colour);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

}  // namespace

double contrast(std::string_view a, std::string_view b) {
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

std::string_view ink_on(std::string_view colour) {
  return contrast(kLight, colour) >= contrast(kDark, colour) ? kLight : kDark;
}

double distance(std::string_view a, std::string_view b) {
  const auto x = channels(a), y = channels(b);
  const double red = (x[0] + y[0]) / 512;
  return std::sqrt((2 + red) * std::pow(x[0] - y[0], 2) + 4 * std::pow(x[1] - y[1], 2) +
                   (3 - red) * std::pow(x[2] - y[2], 2));
}

}  // namespace plait
