#include "apps/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>

#include "base/errors.h"

namespace plait {

struct CommandLine::Parser {
  std::string verb;
  CLI::App app;
};

CommandLine::CommandLine(const std::string& verb, const std::string& summary)
    : parser_(new Parser{verb, CLI::App(summary, "plait " + verb)}) {}

CommandLine::~CommandLine() = default;

CommandLine& CommandLine::positional(const std::string& name, std::string& into, const std::string& meaning) {
  parser_->app.add_option(name, into, meaning)->required();
  return *this;
}

CommandLine& CommandLine::optional_positional(const std::string& name, std::string& into, const std::string& meaning) {
  parser_->app.add_option(name, into, meaning);
  return *this;
}

CommandLine& CommandLine::rest(const std::string& name, std::vector<std::string>& into, const std::string& meaning) {
  parser_->app.add_option(name, into, meaning);
  return *this;
}

CommandLine& CommandLine::option(const std::string& name, std::string& into, const std::string& meaning) {
  parser_->app.add_option(name, into, meaning);
  return *this;
}

namespace {

// All of the text, where it is such a number.
template <class Number>
std::optional<Number> read(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool holds(const Integers& range, int64_t value) { return value >= range.least && value <= range.most; }

bool holds(const Reals& range, double value) {
  return (range.at_least == Reals::Least::taken ? value >= range.least : value > range.least) && value <= range.most;
}

std::string words(const Integers& range) { return fmt::format("an integer of {} to {}", range.least, range.most); }

std::string words(const Reals& range) {
  if (range.at_least == Reals::Least::taken) return fmt::format("a number of {} to {}", range.least, range.most);
  return fmt::format("a number above {}, at most {}", range.least, range.most);
}

template <class Number, class Range>
void add_number(CLI::App& app, const std::string& name, Number& into, Range range) {
  const auto take = [&into, name, range](const std::string& text) {
    const std::optional<Number> value = read<Number>(text);
    if (!value || !holds(range, *value)) input_error("{} {}: expected {}", name, text, words(range));
    into = *value;
  };
  app.add_option_function<std::string>(name, take)->type_name("NUMBER")->default_str(fmt::format("{}", into));
}

}  // namespace

CommandLine& CommandLine::option(const std::string& name, int64_t& into, const std::string& meaning, Integers range) {
  add_number(parser_->app, name, into, range);
  parser_->app.get_option(name)->description(meaning);
  return *this;
}

CommandLine& CommandLine::option(const std::string& name, double& into, const std::string& meaning, Reals range) {
  add_number(parser_->app, name, into, range);
  parser_->app.get_option(name)->description(meaning);
  return *this;
}

CommandLine& CommandLine::options(const std::string& name, std::vector<std::string>& into, const std::string& meaning) {
  parser_->app.add_option(name, into, meaning)->expected(1, -1);
  return *this;
}

CommandLine& CommandLine::flag(const std::string& name, bool& into, const std::string& meaning) {
  parser_->app.add_flag(name, into, meaning);
  return *this;
}

CommandLine& CommandLine::config(std::string& path, std::vector<std::string>& overrides) {
  return positional("CONFIG", path, "a TOML file, see `plait config`")
      .rest("KEY=VALUE", overrides, "section.key=value, wins over the file");
}

bool CommandLine::parse(Arguments arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    parser_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", parser_->app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    std::string why = error.what();
    std::ranges::replace(why, '\n', ' ');
    input_error("{}: {}; `plait {} --help` says what it takes", parser_->verb, why, parser_->verb);
  }
  return true;
}

}  // namespace plait
