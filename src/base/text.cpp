#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace plait {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance * 3 > std::max(name.size(), candidate.size()) || (best && distance >= best_distance)) continue;
    best = &candidate;
    best_distance = distance;
  }
  return best ? *best : std::string();
}

std::string join(std::span<const std::string> parts, std::string_view between) {
  std::string all;
  for (size_t i = 0; i < parts.size(); ++i) all.append(i ? between : "").append(parts[i]);
  return all;
}

// By the table of well-formed sequences: no overlong ones, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  for (size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    const size_t more = first < 0x80                    ? 0
                        : first >= 0xc2 && first < 0xe0 ? 1
                        : first >= 0xe0 && first < 0xf0 ? 2
                        : first >= 0xf0 && first < 0xf5 ? 3
                                                        : 4;
    if (more == 4) return false;
    const unsigned low = first == 0xe0   ? 0xa0
                         : first == 0xf0 ? 0x90
                                         : 0x80,
                   high = first == 0xed   ? 0x9f
                          : first == 0xf4 ? 0x8f
                                          : 0xbf;
    if (more > 0 && (byte(i + 1) < low || byte(i + 1) > high)) return false;
    for (size_t j = 2; j <= more; ++j)
      if ((byte(i + j) & 0xc0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

std::string percent_encoded(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte >= 0x20 && byte < 0x7f && c != '%' ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return text;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view hex = text.substr(i + 1, 2);
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
    if (error != std::errc() || hex.size() != 2 || end != hex.data() + 2) return {};
    bytes += static_cast<char>(value);
    i += 2;
  }
  return bytes;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace plait
