// The rewrites by their names, for those who try them on a list of their own.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace plait {

struct NamedRewrite {
  std::string_view name;
  std::string_view argument;  // what stands behind "name=": "AXIS"; empty: nothing
  std::string_view summary;
  Schedule (*apply)(const Schedule& schedule, const std::string& argument);
};
std::span<const NamedRewrite> named_rewrites();

// "hoist=tp", "merge_moves". InputError for another name or argument; what the rewrite throws.
Schedule rewritten(const Schedule& schedule, const std::string& request);

}  // namespace plait
