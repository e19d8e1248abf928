// The memory results of DeepSpeed-TED as tables, by plan/ted_memory: what docs/numbers.md shows.
#pragma once
#include <string>

namespace plait {

std::string ted_tables();

}  // namespace plait
