// What a verb accepts: positionals in order, options with a value, flags. Filled in place, so the fields' first values
// are the defaults. Keeps the parser's own header out of the verbs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/apps.h"

namespace plait {

class CommandLine {
 public:
  CommandLine(const std::string& verb, const std::string& summary);
  ~CommandLine();

  CommandLine& positional(const std::string& name, std::string& into, const std::string& meaning);  // required
  CommandLine& optional_positional(const std::string& name, std::string& into,
                                   const std::string& meaning);  // may be left out
  CommandLine& rest(const std::string& name, std::vector<std::string>& into, const std::string& meaning);  // any number
  CommandLine& option(const std::string& name, std::string& into, const std::string& meaning);             // "--prompt"
  CommandLine& option(const std::string& name, int64_t& into, const std::string& meaning);
  CommandLine& option(const std::string& name, double& into, const std::string& meaning);
  CommandLine& options(const std::string& name, std::vector<std::string>& into,
                       const std::string& meaning);  // "--with a b c": all words up to the next option
  CommandLine& flag(const std::string& name, bool& into, const std::string& meaning);

  // CONFIG [section.key=value ...], as most verbs begin.
  CommandLine& config(std::string& path, std::vector<std::string>& overrides);

  // False when the help was asked for, and printed: return 0. Throws InputError for what does not parse.
  bool parse(Arguments arguments);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace plait
