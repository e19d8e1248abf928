#include "schedule/parse_line.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "base/text.h"

namespace plait {
namespace {

constexpr size_t kShown = 24;  // characters of what was read

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// What was read, fit for a message of one line.
std::string shown(std::string_view text) {
  if (text.empty()) return "the end of the line";
  std::string part(text.substr(0, kShown));
  std::ranges::replace_if(
      part, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return fmt::format("\"{}\"", part);
}

}  // namespace

std::string Line::place() const { return fmt::format("{}:{}", file_, number_); }

void Line::fail_at(size_t at, std::string_view expected) const {
  input_error("{}: read {} (column {}), expected {}", place(), shown(text_.substr(at)), at + 1, expected);
}

void Line::fail_at(size_t at, std::string_view expected, std::span<const std::string> candidates) const {
  const size_t end = std::min(text_.find_first_of(" \t(=,):", at), text_.size());
  const std::string near = nearest(text_.substr(at, end - at), candidates);
  fail_at(at, near.empty() ? std::string(expected) : fmt::format("{}; did you mean {}?", expected, near));
}

void Line::fail(std::string_view expected) const { fail_at(at_, expected); }

void Line::blanks() {
  while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
}

bool Line::done() {
  blanks();
  return at_ >= text_.size();
}

bool Line::peek(std::string_view token) {
  blanks();
  return text_.substr(at_, token.size()) == token;
}

bool Line::accept(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  return true;
}

void Line::expect(std::string_view token) {
  if (!accept(token)) fail(fmt::format("\"{}\"", token));
}

std::string Line::word(std::string_view stop, std::string_view what) {
  blanks();
  const std::string stops = std::string(stop) + " \t";
  const size_t end = std::min(text_.find_first_of(stops, at_), text_.size());
  if (end == at_) fail(what);
  std::string w(text_.substr(at_, end - at_));
  at_ = end;
  return w;
}

std::string Line::value() {
  if (!accept("%")) fail("a value, %name");
  return word("%,)(=;:\"", "a value's name");
}

int64_t Line::integer(std::string_view stop, int64_t least, int64_t most) {
  blanks();
  const size_t start = at_;
  const std::string what = fmt::format("a whole number from {} to {}", least, most);
  int64_t n = 0;
  if (!whole_number(word(stop, what), n) || n < least || n > most) fail_at(start, what);
  return n;
}

double Line::real(std::string_view stop) {
  blanks();
  const size_t start = at_;
  double x = 0;
  if (!whole_number(word(stop, "a number"), x) || !std::isfinite(x)) fail_at(start, "a number");
  return x;
}

Line Line::field() {
  blanks();
  size_t end = at_;
  for (int open = 0; end < text_.size() && (open > 0 || !is_blank(text_[end])); ++end)
    open += text_[end] == '[' ? 1 : text_[end] == ']' ? -1 : 0;
  Line line(file_, text_.substr(0, end), number_, at_);
  at_ = end;
  return line;
}

}  // namespace plait
