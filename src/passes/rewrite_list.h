// What rewrites share: a list in which some steps give way to others, with its repeated section kept.
#pragma once
#include <functional>
#include <optional>

#include "passes/rewrite.h"

namespace plait {

// Each step becomes the steps that `replace` gives for its index; values may be added meanwhile.
using Replace = std::function<std::vector<Step>(Schedule& out, int index)>;
Schedule replace_steps(const Schedule& schedule, const Replace& replace);

// A name that no value has, from this one.
std::string free_name(const Schedule& schedule, const std::string& base);

// The moves one after another between the operands and the results of a move, when they type and end as it does.
std::optional<std::vector<Step>> instead_of(Schedule& out, const Types& types, const Step& move,
                                            const std::vector<Legs>& parts);

}  // namespace plait
