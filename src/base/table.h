// A text table: columns as wide as their widest cell, columns of numbers to the right.
#pragma once
#include <string>
#include <vector>

namespace plait {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  // REQUIRES as many cells as the header has.
  Table& row(std::vector<std::string> cells);

  // Header, a rule, the rows; every line ends with a newline and none with a blank.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // rows_[0]: the header
};

}  // namespace plait
