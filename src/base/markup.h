// Text within HTML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace plait {

// With `&`, `<`, `>` and `"` written as the names that both formats know: for text between tags and for attributes.
std::string escaped(std::string_view text);

}  // namespace plait
