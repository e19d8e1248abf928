#include "apps/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

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

CommandLine& CommandLine::option(const std::string& name, int64_t& into, const std::string& meaning) {
  parser_->app.add_option(name, into, meaning)->capture_default_str();
  return *this;
}

CommandLine& CommandLine::option(const std::string& name, double& into, const std::string& meaning) {
  parser_->app.add_option(name, into, meaning)->capture_default_str();
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
