#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
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

namespace {

// Bytes of the UTF-8 character that the text begins with, by its first byte; 0: none begins so.
size_t length_of_first(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// How many bytes at the beginning are one character; 0: none, or half of one.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = length_of_first(byte(0));
  if (length <= 1) return length;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool no_character = (byte(0) == 0xed && byte(1) > 0x9f) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return overlong || no_character ? 0 : length;
}

// The same of one that can be shown.
size_t shown_length(std::string_view text) {
  const size_t length = character_length(text);
  const auto first = static_cast<unsigned char>(text[0]);
  if (length == 1) return first == '\n' || first == '\t' || (first >= 0x20 && first != 0x7f) ? 1 : 0;
  const bool controls = length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
  return controls ? 0 : length;
}

// Bytes at the end that may be the beginning of a character.
size_t begun(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) != 0x80) return length_of_first(byte) > back ? back : 0;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string visible(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const size_t length = shown_length(text);
    if (length > 0)
      all += text.substr(0, length);
    else
      all += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return all;
}

std::string VisiblePieces::add(std::string_view piece) {
  held_ += piece;
  const std::string rest = held_.substr(held_.size() - begun(held_));
  held_.resize(held_.size() - rest.size());
  const std::string shown = visible(held_);
  held_ = rest;
  return shown;
}

std::string VisiblePieces::end() { return visible(std::exchange(held_, "")); }

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace plait
