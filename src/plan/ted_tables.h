// The memory results of DeepSpeed-TED as tables: states by its own formulas, what recomputation keeps by the lists of
// our own families. docs/numbers.md shows them.
#pragma once
#include <string>

namespace plait {

std::string ted_tables();

}  // namespace plait
