#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

namespace plait {
namespace {

// Three significant digits without an exponent: 1.23, 12.3, 123.
std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  return size >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string scaled(double value, double step, std::span<const std::string_view> units) {
  size_t unit = 0;
  while (std::abs(value) >= step * 0.9995 && unit + 1 < units.size()) value /= step, ++unit;
  const bool whole = unit == 0 && value == std::floor(value);
  return (whole ? fmt::format("{:.0f}", value) : three_digits(value)) + std::string(units[unit]);
}

constexpr std::string_view kCounts[] = {"", "k", "M", "G", "T", "P"};
constexpr std::string_view kBytes[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
constexpr std::string_view kShortTimes[] = {" ns", " us", " ms", " s"};

}  // namespace

std::string human_count(double count) { return scaled(count, 1000, kCounts); }

std::string human_bytes(double bytes) { return scaled(bytes, 1024, kBytes); }

std::optional<int64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.ends_with('B')) unit.remove_suffix(1);
  const double step = unit.ends_with('i') ? 1024 : 1000;
  if (unit.ends_with('i')) unit.remove_suffix(1);
  constexpr std::string_view prefixes = "kMGTP";
  if (error != std::errc() || unit.size() > 1 || (unit.empty() && step == 1024)) return std::nullopt;
  if (!unit.empty()) {
    const size_t power = prefixes.find(unit[0] == 'K' ? 'k' : unit[0]);
    if (power == std::string_view::npos) return std::nullopt;
    value *= std::pow(step, static_cast<double>(power + 1));
  }
  if (!(value >= 1) || value > 9e18) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<double> parse_seconds(std::string_view text) {
  constexpr std::string_view units = "dhms";
  constexpr double seconds[] = {86400, 3600, 60, 1};
  double sum = 0;
  size_t next = 0;  // units come from large to small, each once
  while (!text.empty()) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const size_t unit = text.empty() ? std::string_view::npos : units.find(text[0], next);
    if (error != std::errc() || unit == std::string_view::npos || !(value >= 0)) return std::nullopt;
    text.remove_prefix(1);
    sum += value * seconds[unit];
    next = unit + 1;
  }
  return sum > 0 && std::isfinite(sum) ? std::optional(sum) : std::nullopt;
}

std::string percent(double share, int decimals) {
  return std::isnan(share) ? "" : fmt::format("{:.{}f}%", 100 * share, decimals);
}

std::string times(double ratio) { return std::isnan(ratio) ? "" : fmt::format("{:.2f}x", ratio); }

std::string mib(double bytes, int decimals) {
  return std::isnan(bytes) ? "" : fmt::format("{:.{}f}", bytes / (1 << 20), decimals);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds == 0) return "0 s";
  if (std::abs(seconds) < 99.95) return scaled(seconds * 1e9, 1000, kShortTimes);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace plait
