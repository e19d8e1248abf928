// One line of a schedule as text, read from left to right. Whatever it cannot take is an InputError
// "FILE:LINE: read "..." (column C), expected ...".
#pragma once
#include <charconv>
#include <span>
#include <string>
#include <string_view>

namespace plait {

class Line {
 public:
  Line(std::string_view file, std::string_view text, int number, size_t at = 0)
      : file_(file), text_(text), number_(number), at_(at) {}

  int number() const { return number_; }
  size_t at() const { return at_; }
  std::string place() const;  // "FILE:LINE"

  [[noreturn]] void fail(std::string_view expected) const;
  // Of the word that begins at `at`, with the candidate that it resembles most, if any does.
  [[noreturn]] void fail_at(size_t at, std::string_view expected) const;
  [[noreturn]] void fail_at(size_t at, std::string_view expected, std::span<const std::string> candidates) const;

  bool done();
  bool peek(std::string_view token);
  bool accept(std::string_view token);
  void expect(std::string_view token);

  // The longest run of characters that are none of `stop`, nor blanks.
  std::string word(std::string_view stop, std::string_view what);
  std::string value();  // of "%name" the name
  int64_t integer(std::string_view stop, int64_t least, int64_t most);
  double real(std::string_view stop);

  // What begins here up to the next blank that stands in no brackets, as a line that ends there; this one goes on
  // behind.
  Line field();

 private:
  void blanks();
  template <class T>
  bool whole_number(const std::string& word, T& n) const {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    return error == std::errc() && end == word.data() + word.size();
  }

  std::string_view file_, text_;
  int number_;
  size_t at_;
};

}  // namespace plait
