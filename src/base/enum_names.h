// The words of an enum, in its order: what lists print and configs say.
#pragma once
#include <array>
#include <string_view>

namespace plait {

template <class E>
struct EnumNames;  // with a member `names`

}  // namespace plait
