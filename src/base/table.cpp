#include "base/table.h"

#include <algorithm>

#include "base/errors.h"
#include "base/text.h"

namespace plait {
namespace {

enum class Side { kLeft, kRight };

// "12", "-1.5e3", "12.3k", "850 ms", "3.2x", "97%", "-" and "" stand with numbers; a word does not.
bool number_like(const std::string& cell) {
  if (cell.empty() || cell == "-" || cell == "nan" || cell == "inf") return true;
  const size_t sign = cell[0] == '-' || cell[0] == '+';
  return sign < cell.size() && cell[sign] >= '0' && cell[sign] <= '9';
}

std::string padded(const std::string& cell, size_t width, Side side) {
  const std::string blank(width - display_width(cell), ' ');
  return side == Side::kRight ? blank + cell : cell + blank;
}

}  // namespace

Table& Table::row(std::vector<std::string> cells) {
  expects(cells.size() == rows_[0].size(), "table: a row must have as many cells as the header");
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::str() const {
  const size_t columns = rows_[0].size();
  std::vector<size_t> width(columns, 0);
  std::vector<Side> side(columns, rows_.size() > 1 ? Side::kRight : Side::kLeft);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], display_width(rows_[r][c]));
      if (r > 0 && !number_like(rows_[r][c])) side[c] = Side::kLeft;
    }
  }
  std::string text;
  const auto line = [&](auto cell) {
    std::string one;
    for (size_t c = 0; c < columns; ++c) one += (c ? "  " : "") + cell(c);
    text += one.substr(0, one.find_last_not_of(' ') + 1) + "\n";
  };
  for (size_t r = 0; r < rows_.size(); ++r) {
    line([&](size_t c) { return padded(rows_[r][c], width[c], side[c]); });
    if (r == 0) line([&](size_t c) { return std::string(width[c], '-'); });
  }
  return text;
}

}  // namespace plait
