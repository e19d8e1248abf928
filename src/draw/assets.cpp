#include "draw/assets.h"

namespace plait {

std::string filled(std::string_view name, const std::map<std::string, std::string, std::less<>>& values) {
  std::string_view rest = asset(name);
  std::string out;
  for (size_t begin; (begin = rest.find("{{")) != std::string_view::npos;) {
    const size_t end = rest.find("}}", begin);
    const std::string_view what = rest.substr(begin + 2, end - begin - 2);
    const auto value = values.find(what);
    out.append(rest.substr(0, begin)).append(value == values.end() ? asset(what) : value->second);
    rest.remove_prefix(end + 2);
  }
  return out.append(rest);
}

}  // namespace plait
