// What a verb accepts: positionals in order, options with a value, flags. Filled in place, so the fields' first values
// are the defaults. Keeps the parser's own header out of the verbs.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "apps/apps.h"

namespace plait {

// What a number option takes; anything else is refused with these bounds.
struct Integers {
  int64_t least = 1, most = int64_t{1} << 31;
};
struct Reals {
  double least = 0, most = 1e6;
  enum class Least { taken, refused } at_least = Least::taken;
};
inline constexpr Integers kFromZero{.least = 0}, kRankCount{.most = int64_t{1} << 20};
inline constexpr Integers kSeed{.least = 0, .most = std::numeric_limits<int64_t>::max()};

class CommandLine {
 public:
  CommandLine(const std::string& verb, const std::string& summary);
  ~CommandLine();

  CommandLine& positional(const std::string& name, std::string& into, const std::string& meaning);  // required
  CommandLine& optional_positional(const std::string& name, std::string& into,
                                   const std::string& meaning);  // may be left out
  CommandLine& rest(const std::string& name, std::vector<std::string>& into, const std::string& meaning);  // any number
  CommandLine& option(const std::string& name, std::string& into, const std::string& meaning);             // "--prompt"
  CommandLine& option(const std::string& name, int64_t& into, const std::string& meaning, Integers range = {});
  CommandLine& option(const std::string& name, double& into, const std::string& meaning, Reals range);
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
