// The named options that both the description of an op and its kernel read.
#pragma once
#include <array>
#include <string_view>

namespace plait {

enum class Act { silu, gelu, relu };  // gelu: the exact one, by erf

// softmax: the top k of the softmax; switch_top1: argmax, weight = its probability, never renormalised.
enum class Gate { softmax, switch_top1 };

// Renormalise the chosen weights before dropping, over what was kept after dropping, or never.
enum class Normalize { before, after, none };

// none: dropless. probs: each expert keeps its most probable routes. position: first come.
enum class Drop { none, probs, position };

enum class Direction { forward, inverse };

template <class E>
struct EnumNames;
template <>
struct EnumNames<Act> {
  static constexpr std::array<std::string_view, 3> names = {"silu", "gelu", "relu"};
};
template <>
struct EnumNames<Gate> {
  static constexpr std::array<std::string_view, 2> names = {"softmax", "switch"};
};
template <>
struct EnumNames<Normalize> {
  static constexpr std::array<std::string_view, 3> names = {"before", "after", "none"};
};
template <>
struct EnumNames<Drop> {
  static constexpr std::array<std::string_view, 3> names = {"none", "probs", "position"};
};
template <>
struct EnumNames<Direction> {
  static constexpr std::array<std::string_view, 2> names = {"forward", "inverse"};
};

}  // namespace plait
