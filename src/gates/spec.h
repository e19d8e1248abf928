// What a gate is, without its arithmetic: all that config, model, schedule and planning ask of it. Each gate is a
// folder src/gates/NAME: record.* says what it is (this), kernel.* computes it on CPU, plain.* are the plain loops that
// tests compare with.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/enum_names.h"

namespace plait {

namespace kernels {
struct RouteKernel;  // kernels/cpu/gate_rows.h
}
namespace oracle {
struct PlainRoute;  // schedule/testing/plain_route.h
}

// softmax: over all experts. sigmoid: of each expert, divided by their sum.
enum class Score { softmax, sigmoid };

// The softmax over all experts before the top k, or over the chosen ones after it.
enum class GateOrder { softmax_first, topk_first };

// gumbel, in training: the choice, or gshard's second one, is drawn by the softmax instead of being its maximum.
enum class Sample { none, gumbel };

// Renormalise the chosen weights before dropping, over what was kept after dropping, or never.
enum class Normalize { before, after, none };

// none: dropless. probs: each expert keeps its most probable routes. position: first come. rts: a random priority of
// each (token, expert).
enum class Drop { none, probs, position, rts };

// What only some gates read.
struct GateRule {
  Sample sample = Sample::none;                // of gates that draw
  int64_t expert_groups = 1, kept_groups = 1;  // only experts of the groups with the best two scores together
  double scaling = 1;                          // factor of every weight
  int64_t stream = 0;                          // of random numbers: other layers, other numbers
  bool operator==(const GateRule&) const = default;
};

// What is chosen by: logits[T, E] (op Route), or the tokens' ids alone (op HashRoute).
enum class Reads { logits, ids };

// Who chooses. token: each its own experts. group: the tokens of a gate group are shared out together. expert: each
// takes as many tokens of a gate group as it has room for; a token has a place for every expert, K = E.
enum class Chooser { token, group, expert };

// The order in which routes come to an expert: by token, or all first choices before all second ones.
enum class Queue { by_token, by_choice };

// One way to choose experts and weigh them: what a list names in `route gate=NAME`.
struct RouteSpec {
  std::string_view name;
  Reads reads = Reads::logits;
  Chooser chooser = Chooser::token;
  Queue queue = Queue::by_token;
  int64_t top_k = 0;           // experts that a token takes; 0: any number
  bool bias = false;           // chooses with a bias[E], state that moves against the load
  bool samples = false;        // has GateRule::sample
  bool limits_groups = false;  // has expert_groups, kept_groups and scaling of GateRule
  // Of a gate from outside; those of Plait's own are listed in gates/all.
  const kernels::RouteKernel* kernel = nullptr;
  const oracle::PlainRoute* plain = nullptr;
};

// What balances the load of the experts. means: the product of mean score and share of routes, of the tokens that
// moe.aux_scope says. of_each_sequence: the same of every sequence alone. variation: of importance and load of noisy
// logits.
enum class AuxLoss { none, means, of_each_sequence, variation };

// A gate that moe.gate names.
struct GateSpec {
  std::string_view name;
  std::string_view help;                  // who chooses, in a few words
  const RouteSpec* route;                 // how it chooses
  const RouteSpec* topk_first = nullptr;  // how with moe.order = "topk_first", of a gate that reads this key
  // The keys that have an effect, of those that some gate does without.
  std::array<std::string_view, 12> keys = {};
  bool noise = false;                  // chooses by logits with learned noise in training: weight mlp.gate_noise
  std::optional<Normalize> normalize;  // whatever moe.normalize says
  AuxLoss loss = AuxLoss::none;
  double aux_coef = 0.01;        // of the loss, unless moe.aux_coef says it
  int64_t counted = 0;           // choices of a token that the loss counts, from the first; 0: all
  Score score = Score::softmax;  // whose mean the loss takes

  bool reads(std::string_view key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }
  bool has_logits() const { return route->reads == Reads::logits; }
};

// No two have one name. What is pointed to lives as long as what is made of it.
using Gates = std::vector<const GateSpec*>;

// nullptr where none is called that; routes by their name in lists.
const GateSpec* find_gate(const Gates& gates, std::string_view name);
const RouteSpec* find_route(const Gates& gates, std::string_view name);

template <>
struct EnumNames<Score> {
  static constexpr std::array<std::string_view, 2> names = {"softmax", "sigmoid"};
};
template <>
struct EnumNames<GateOrder> {
  static constexpr std::array<std::string_view, 2> names = {"softmax_first", "topk_first"};
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

}  // namespace plait
