// The files of src/draw/assets, which the build puts into the program.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace plait {

// The text of one, "timeline.css". REQUIRES that it is there.
std::string_view asset(std::string_view name);

// The text of one with each {{NAME}} replaced: by the value of that name, else by the file of that name, as it is.
std::string filled(std::string_view name, const std::map<std::string, std::string, std::less<>>& values);

}  // namespace plait
