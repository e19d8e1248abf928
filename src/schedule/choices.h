// The named options that both the description of an op and its kernel read.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace plait {

enum class Act { silu, gelu, relu };  // gelu: the exact one, by erf

// softmax: the top k of the softmax over all experts. switch_top1: argmax, weight = its probability, never
// renormalised. topk_softmax: the softmax over the top k logits only. gshard: the two largest; second choices queue
// behind all first ones. sigmoid: the top k of sigmoid + bias, weights without the bias. expert_choice: each expert
// takes the tokens of a gate group that want it most (K = E). base: tokens of a gate group shared out evenly. hash: by
// the token's id alone. noisy_topk: topk_softmax of logits with learned noise (op Noise), its losses from the noise.
enum class Gate { softmax, switch_top1, topk_softmax, gshard, sigmoid, expert_choice, base, hash, noisy_topk };

// What a gate's statistics average: the softmax, or sigmoids divided by their sum over the experts.
enum class Score { softmax, sigmoid };

// gumbel, in training: the Switch choice, or gshard's second one, is drawn by the softmax instead of being its maximum.
enum class Sample { none, gumbel };

// Renormalise the chosen weights before dropping, over what was kept after dropping, or never.
enum class Normalize { before, after, none };

// none: dropless. probs: each expert keeps its most probable routes. position: first come. rts: a random priority of
// each (token, expert).
enum class Drop { none, probs, position, rts };

enum class Direction { forward, inverse };

// none: everything is kept. selective: results of products, attention and messages are kept, what is cheap to make from
// them is made again. full: only what enters a block is kept, and the results of messages as KeepMoves says.
enum class Recompute { none, selective, full };
// Messages whose results are kept: all; all but all_gathers, whose small side is kept and joined again; none.
enum class KeepMoves { all, reduce_and_exchange, none };

// What only some gates read.
struct GateRule {
  Sample sample = Sample::none;                // switch_top1, gshard
  int64_t expert_groups = 1, kept_groups = 1;  // sigmoid: only experts of the groups with the best two scores together
  double scaling = 1;                          // sigmoid: factor of every weight
  int64_t stream = 0;                          // of random numbers: other layers, other numbers
  bool operator==(const GateRule&) const = default;
};

template <class E>
struct EnumNames;
template <>
struct EnumNames<Act> {
  static constexpr std::array<std::string_view, 3> names = {"silu", "gelu", "relu"};
};
template <>
struct EnumNames<Gate> {
  static constexpr std::array<std::string_view, 9> names = {
      "softmax", "switch", "topk_softmax", "gshard", "sigmoid", "expert_choice", "base", "hash", "noisy_topk"};
};
template <>
struct EnumNames<Score> {
  static constexpr std::array<std::string_view, 2> names = {"softmax", "sigmoid"};
};
template <>
struct EnumNames<Normalize> {
  static constexpr std::array<std::string_view, 3> names = {"before", "after", "none"};
};
template <>
struct EnumNames<Drop> {
  static constexpr std::array<std::string_view, 4> names = {"none", "probs", "position", "rts"};
};
template <>
struct EnumNames<Sample> {
  static constexpr std::array<std::string_view, 2> names = {"none", "gumbel"};
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
