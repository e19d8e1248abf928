// The three kinds of failure (see docs/notation.md): a person's input, our own broken promise, a library's refusal.
// Nothing below the app prints or exits: it throws one of these, and the app says it once.
#pragma once
#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plait {

// A config, file or command line that cannot be used. The message says what was read, where, what was
// expected, what to do.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A shape, order or promise that the code itself broke.
struct ContractError : std::logic_error {
  using std::logic_error::logic_error;
};

// A collective that failed, timed out or was abandoned because another rank ended.
struct CommError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void input_error(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

// Always on, O(1): `expects(rows == table.sum(), "encode: rows and table differ")`.
inline void expects(bool holds, std::string_view what, std::source_location at = std::source_location::current()) {
  if (!holds) throw ContractError(fmt::format("{} ({}:{})", what, at.file_name(), at.line()));
}

}  // namespace plait
