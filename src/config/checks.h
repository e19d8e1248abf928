// Numbers of a config that must fit each other, named in what refuses them.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/errors.h"

namespace plait {

struct Named {
  std::string name;
  int64_t value;
  std::string text() const { return fmt::format("{} = {}", name, value); }
};

inline void must_divide(const Named& part, const Named& whole) {
  if (whole.value % part.value != 0) input_error("{} is not divisible by {}", whole.text(), part.text());
}

}  // namespace plait
