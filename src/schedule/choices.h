// The named options that both the description of an op and its kernel read.
#pragma once
#include "base/enum_names.h"

namespace plait {

enum class Act { silu, gelu, relu };  // gelu: the exact one, by erf

enum class Direction { forward, inverse };

// none: everything is kept. selective: results of products, attention and messages are kept, what is cheap to make from
// them is made again. full: only what enters a block is kept, and the results of messages as KeepMoves says.
enum class Recompute { none, selective, full };
// Messages whose results are kept: all; all but all_gathers, whose small side is kept and joined again; none.
enum class KeepMoves { all, reduce_and_exchange, none };

template <>
struct EnumNames<Act> {
  static constexpr std::array<std::string_view, 3> names = {"silu", "gelu", "relu"};
};
template <>
struct EnumNames<Recompute> {
  static constexpr std::array<std::string_view, 3> names = {"none", "selective", "full"};
};
template <>
struct EnumNames<KeepMoves> {
  static constexpr std::array<std::string_view, 3> names = {"all", "reduce_and_exchange", "none"};
};
template <>
struct EnumNames<Direction> {
  static constexpr std::array<std::string_view, 2> names = {"forward", "inverse"};
};

}  // namespace plait
