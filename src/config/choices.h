// What a key may say, where it is one of a few words.
#pragma once
#include "families/family.h"
#include "schedule/choices.h"

namespace plait {

enum class AuxScope { global, local };
enum class Fusing { by_family, yes, no };
enum class RowFill { counted, padded };
enum class Sliced { rows, tokens };
enum class StepOrder { written, overlap };
enum class SumType { float32, param };  // param: the type of the run
enum class OptimizerKind { adamw, sgd };
enum class OnTerm { exit, requeue };
enum class RunType { float32, float64, bfloat16, float16 };

template <>
struct EnumNames<AuxScope> {
  static constexpr std::array<std::string_view, 2> names = {"global", "local"};
};
template <>
struct EnumNames<Fusing> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "yes", "no"};
};
template <>
struct EnumNames<Dispatch> {
  static constexpr std::array<std::string_view, 3> names = {"direct", "levels", "node"};
};
template <>
struct EnumNames<RowFill> {
  static constexpr std::array<std::string_view, 2> names = {"counted", "padded"};
};
template <>
struct EnumNames<Sliced> {
  static constexpr std::array<std::string_view, 2> names = {"rows", "tokens"};
};
template <>
struct EnumNames<StepOrder> {
  static constexpr std::array<std::string_view, 2> names = {"written", "overlap"};
};
template <>
struct EnumNames<SumType> {
  static constexpr std::array<std::string_view, 2> names = {"float32", "param"};
};
template <>
struct EnumNames<OptimizerKind> {
  static constexpr std::array<std::string_view, 2> names = {"adamw", "sgd"};
};
template <>
struct EnumNames<OnTerm> {
  static constexpr std::array<std::string_view, 2> names = {"exit", "requeue"};
};
template <>
struct EnumNames<RunType> {
  static constexpr std::array<std::string_view, 4> names = {"float32", "float64", "bfloat16", "float16"};
};

// "float16", as a config says it.
template <class E>
constexpr std::string_view word(E choice) {
  return EnumNames<E>::names[static_cast<size_t>(choice)];
}
inline bool is_half(RunType type) { return type == RunType::bfloat16 || type == RunType::float16; }

}  // namespace plait
