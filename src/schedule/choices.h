// The named options that both the description of an op and its kernel read.
#pragma once
#include <cstdint>

#include "base/enum_names.h"

namespace plait {

// gelu: the exact one, by erf; gelu_tanh: its approximation by tanh.
enum class Act { silu, gelu, relu, gelu_tanh };

enum class Direction { forward, inverse };

// How the frequencies of rotary positions are stretched for texts longer than those of training. standard: not at all.
// linear: all by the factor (Chen et al. 2023). llama3: only those whose wave is longer than a share of the original
// text. yarn: between two numbers of turns over the original text (Peng et al. 2023), with an amplitude.
enum class RopeType { standard, linear, llama3, yarn };
struct RopeScaling {
  RopeType type = RopeType::standard;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3: original text / wave below which, above which
  int64_t original_positions = 0;                    // llama3 and yarn: of the texts of training
  double beta_fast = 32, beta_slow = 1;              // yarn: turns over the original text
  double attention_factor = 0;                       // yarn: of cosine and sine; 0: 0.1 ln(factor) + 1
  static void fields(auto& self, auto&& f) {
    f("scaling", self.type);
    if (self.type == RopeType::standard) return;
    f("factor", self.factor), f("low", self.low_freq_factor), f("high", self.high_freq_factor);
    f("original", self.original_positions), f("fast", self.beta_fast), f("slow", self.beta_slow);
    f("amplitude", self.attention_factor);
  }
  bool operator==(const RopeScaling&) const = default;
};

// none: everything is kept. selective: results of products, attention and messages are kept, what is cheap to make from
// them is made again. full: only what enters a block is kept, and the results of messages as KeepMoves says.
enum class Recompute { none, selective, full };
// Messages whose results are kept: all; all but all_gathers, whose small side is kept and joined again; none.
enum class KeepMoves { all, reduce_and_exchange, none };

template <>
struct EnumNames<Act> {
  static constexpr std::array<std::string_view, 4> names = {"silu", "gelu", "relu", "gelu_tanh"};
};
template <>
struct EnumNames<RopeType> {
  static constexpr std::array<std::string_view, 4> names = {"default", "linear", "llama3", "yarn"};
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
