// The ops of a schedule: small structs with exactly their own fields, in one variant; those of a gate stand here. Only
// Move communicates. `fields` names the fields once, for print, parse and comparison; `kTraits` says what else is to be
// known. Operands and results, with their dims, stand beside each op: T tokens, D width, K routes of a token, E
// experts, R rows = [E, g.., C] (jagged) or [E, g.., W, C] (padded).
#pragma once
#include <variant>

#include "gates/softmax/record.h"
#include "schedule/op_dense.h"
#include "schedule/op_move.h"
#include "schedule/op_rows.h"
#include "schedule/op_update.h"

namespace plait {

struct ExternalOp;

// The choice of experts: (logits[T, E], mask[T] [, bias[E]] [, step_key[]]) -> (weight[T, K], idx[T, K], slot[T, K]);
// idx -1: padding; slot -1: dropped, else the place among the kept routes of that expert within the gate group of
// `group` tokens. The bias is of the gates that have one, the key of those that draw; neither has a gradient.
struct Route {
  static constexpr const char* kName = "route";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::per_token(3600),
                                  .kept = Kept::always,
                                  .hoist = {.slices = traits::of_whole_groups, .joins = Joins::stay},
                                  .scratch = traits::no_scratch};
  const RouteSpec* gate = &softmax_route;
  Normalize normalize = Normalize::before;
  Drop drop = Drop::none;
  int64_t top_k = 1, capacity = 0, group = 0;  // capacity 0: dropless; group: tokens decided together
  GateRule rule = {};

  bool draws() const { return drop == Drop::rts || rule.sample != Sample::none; }
  static void fields(auto& self, auto&& f) {
    f("gate", self.gate), f("normalize", self.normalize), f("drop", self.drop), f("top_k", self.top_k);
    f("capacity", self.capacity), f("group", self.group);
    if (self.gate->samples) f("sample", self.rule.sample);
    if (self.gate->limits_groups) {
      f("expert_groups", self.rule.expert_groups), f("kept_groups", self.rule.kept_groups);
      f("scaling", self.rule.scaling);
    }
    if (self.draws()) f("stream", self.rule.stream);
  }
  bool operator==(const Route&) const = default;
};

// The gate of fixed hashing: (ids[T], mask[T]) -> as a route; choice k of a token is expert (id + k) mod E, its weight
// 1/K. Drops come by position. No gradient.
struct HashRoute {
  static constexpr const char* kName = "hash_route";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::always,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t experts = 1, top_k = 1, capacity = 0, group = 0;
  static void fields(auto& self, auto&& f) {
    f("experts", self.experts), f("top_k", self.top_k), f("capacity", self.capacity), f("group", self.group);
  }
  bool operator==(const HashRoute&) const = default;
};

// (x[T, D], step_key[]) -> each element times a random factor of 1 - amount to 1 + amount. Its own transpose.
struct Jitter {
  static constexpr const char* kName = "jitter";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double amount = 0.01;
  int64_t stream = 0;
  static void fields(auto& self, auto&& f) { f("amount", self.amount), f("stream", self.stream); }
  bool operator==(const Jitter&) const = default;
};

// (logits[T, E], spread[T, E], step_key[]) -> logits + a standard normal draw * softplus(spread).
struct Noise {
  static constexpr const char* kName = "noise";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t stream = 0;
  static void fields(auto& self, auto&& f) { f("stream", self.stream); }
  bool operator==(const Noise&) const = default;
};

// (spread, step_key, dnoisy) -> dspread; dlogits is dnoisy.
struct NoiseGrad {
  static constexpr const char* kName = "noise_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t stream = 0;
  static void fields(auto& self, auto&& f) { f("stream", self.stream); }
  bool operator==(const NoiseGrad&) const = default;
};

// (logits[T, E], spread[T, E], noisy[T, E], mask[T]) -> (importance[E], load[E]), sums over real tokens of the softmax
// over the top_k of noisy, and of the probability that an expert would be among them if its own noise were drawn again.
struct NoisyStats {
  static constexpr const char* kName = "noisy_stats";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("top_k", self.top_k); }
  bool operator==(const NoisyStats&) const = default;
};

// (logits, spread, noisy, mask, dimportance, dload) -> (dlogits, dspread, dnoisy)
struct NoisyStatsGrad {
  static constexpr const char* kName = "noisy_stats_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("top_k", self.top_k); }
  bool operator==(const NoisyStatsGrad&) const = default;
};

// (importance[E], load[E], share[]) -> [] = share * coef * (cv2(importance) + cv2(load)) / 2, cv2 = variance / mean^2.
struct Variation {
  static constexpr const char* kName = "variation";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double coef = 0;
  static void fields(auto& self, auto&& f) { f("coef", self.coef); }
  bool operator==(const Variation&) const = default;
};

// (importance, load, share, dloss) -> (dimportance, dload)
struct VariationGrad {
  static constexpr const char* kName = "variation_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double coef = 0;
  static void fields(auto& self, auto&& f) { f("coef", self.coef); }
  bool operator==(const VariationGrad&) const = default;
};

// (logits, idx, slot, dweight) -> dlogits
struct RouteGrad {
  static constexpr const char* kName = "route_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::per_token(900),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Route route;
  static void fields(auto& self, auto&& f) { Route::fields(self.route, f); }
  bool operator==(const RouteGrad&) const = default;
};

// (logits[T, E], mask[T]) -> (psum[E] = sum_t mask * score, zsum[] = sum_t mask * logsumexp^2). group > 0: psum[W, E]
// and zsum[W], one of each for every `group` tokens of the world, held S where the ranks of an atom have whole groups
// of their own and P where they share one.
struct GateStats {
  static constexpr const char* kName = "gate_stats";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::per_token(5000),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t group = 0;
  Score score = Score::softmax;
  static void fields(auto& self, auto&& f) { f("group", self.group), f("score", self.score); }
  bool operator==(const GateStats&) const = default;
};

// (logits, mask, dpsum, dzsum) -> dlogits
struct GateStatsGrad {
  static constexpr const char* kName = "gate_stats_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::per_token(7000),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t group = 0;
  Score score = Score::softmax;
  static void fields(auto& self, auto&& f) { f("group", self.group), f("score", self.score); }
  bool operator==(const GateStatsGrad&) const = default;
};

// (idx[T, K], slot[T, K]) -> side (chosen[E], kept[E]): routes per expert, before and after dropping; group as in
// gate_stats.
struct Load {
  static constexpr const char* kName = "load";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::per_token(1200),
                                  .kept = Kept::always,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t experts = 1;
  int64_t choices = 0;  // count only so many routes of each token, from its first; 0: all
  int64_t group = 0;
  static void fields(auto& self, auto&& f) {
    f("experts", self.experts), f("choices", self.choices), f("group", self.group);
  }
  bool operator==(const Load&) const = default;
};

// (psum[E], chosen[E], zsum[], inv_tokens[], share[]) -> [] =
// share * (aux * E/k * sum_e (psum_e * inv) * (chosen_e * inv) + z * zsum * inv): the auxiliary losses of a
// micro-batch. Of groups (psum[W, E], chosen[W, E], zsum[W]) the sum over w, with chosen_we / n_w, n_w = the group's
// real tokens, in place of chosen_e * inv.
struct Balance {
  static constexpr const char* kName = "balance";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double aux = 0, z = 0;
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("aux", self.aux), f("z", self.z), f("top_k", self.top_k); }
  bool operator==(const Balance&) const = default;
};

// (chosen, inv_tokens, share, dloss) -> (dpsum, dzsum)
struct BalanceGrad {
  static constexpr const char* kName = "balance_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double aux = 0, z = 0;
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("aux", self.aux), f("z", self.z), f("top_k", self.top_k); }
  bool operator==(const BalanceGrad&) const = default;
};

// What an op from outside was given: numbers and words, each by its name.
struct Attribute {
  std::string name;
  std::variant<double, int64_t, std::string> value;
  bool operator==(const Attribute&) const = default;
};

// An op that Plait does not know: what a record of schedule/external.h makes of it. Two are equal that are of one
// record and have equal attributes.
struct External {
  const ExternalOp* record = nullptr;
  std::vector<Attribute> attributes = {};

  double number(std::string_view attribute) const;
  int64_t integer(std::string_view attribute) const;
  const std::string& word(std::string_view attribute) const;

  static void fields(auto& self, auto&& f) {
    for (auto& attribute : self.attributes)
      std::visit([&](auto& value) { f(attribute.name.c_str(), value); }, attribute.value);
  }
  bool operator==(const External&) const = default;
};

using Op = std::variant<Move, Einsum, Add, Scale, Cast, Split, Concat, Dup, Pick, Unflatten, Flatten, Pack, Unpack,
                        Activate, ActivateGrad, RmsNorm, RmsNormGrad, Rope, Attention, AttentionGrad, Embed, EmbedGrad,
                        RowMax, ExpSumTarget, ExpSumTargetGrad, Nll, NllGrad, Route, RouteGrad, GateStats,
                        GateStatsGrad, Load, Balance, BalanceGrad, Count, Arrange, Encode, Decode, Pair, Accumulate,
                        SumSquares, ClipFactor, AdamW, Sgd, HashRoute, Jitter, BalanceBias, Noise, NoiseGrad,
                        NoisyStats, NoisyStatsGrad, Variation, VariationGrad, Nodes, CountWithin, Busiest, External>;

// What can be cast to.
template <>
struct EnumNames<Dtype> {
  static constexpr std::array<std::string_view, 2> names = {"real", "full"};
};

template <class T>
const T* as(const Op& op) {
  return std::get_if<T>(&op);
}

std::string_view name(const Op& op);
const Traits& traits_of(const Op& op);

}  // namespace plait
