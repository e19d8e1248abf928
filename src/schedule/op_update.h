// Ops after the gradients: sums over micro-batches, norm, clipping, the optimizers.
#pragma once
#include "schedule/traits.h"

namespace plait {

// (sum, x) -> sum + x, in place of sum.
struct Accumulate {
  static constexpr const char* kName = "accumulate";
  static constexpr Traits kTraits{.memory = traits::kInPlace,
                                  .elements = traits::accumulate,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const Accumulate&) const = default;
};

// (g..) -> side [] = the sum of squares of all their elements; P over the atoms that they are sharded on, so all must
// be held alike.
struct SumSquares {
  static constexpr const char* kName = "sum_squares";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::sum_squares,
                                  .cost = traits::streams(2),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::one_number};
  static void fields(auto&, auto&&) {}
  bool operator==(const SumSquares&) const = default;
};

// (sum of squares [], [scale []]) -> side (norm[], factor[]): norm = sqrt, factor = min(1, clip / (norm + 1e-6)), 1
// when clip is 0. With a scale, that of the loss, the gradients are so many times too large: norm and factor are
// divided by it, and where the norm is not finite the factor is not a number, which tells the update to change nothing.
struct ClipFactor {
  static constexpr const char* kName = "clip_factor";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::clip_factor,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double clip = 0;
  static void fields(auto& self, auto&& f) { f("clip", self.clip); }
  bool operator==(const ClipFactor&) const = default;
};

// (param, grad, m, v, factor[], lr[], step[]) -> (param, m, v), each in place; as they are where factor is not a
// number.
struct AdamW {
  static constexpr const char* kName = "adamw";
  static constexpr Traits kTraits{.memory = {.may = traits::update_moments, .does = traits::fits},
                                  .elements = traits::adamw,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  static void fields(auto& self, auto&& f) {
    f("beta1", self.beta1), f("beta2", self.beta2), f("eps", self.eps), f("weight_decay", self.weight_decay);
  }
  bool operator==(const AdamW&) const = default;
};

// (param, grad, factor[], lr[]) -> param, in place; as it is where factor is not a number.
struct Sgd {
  static constexpr const char* kName = "sgd";
  static constexpr Traits kTraits{.memory = traits::kInPlace,
                                  .elements = traits::sgd,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double weight_decay = 0;
  static void fields(auto& self, auto&& f) { f("weight_decay", self.weight_decay); }
  bool operator==(const Sgd&) const = default;
};

// (bias[E], chosen[E] [, factor[] of the update]) -> bias, in place: up by `rate` where the load is below the mean,
// down where it is above; as it is where factor is not a number.
struct BalanceBias {
  static constexpr const char* kName = "balance_bias";
  static constexpr Traits kTraits{.memory = traits::kInPlace,
                                  .elements = traits::balance_bias,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double rate = 0;
  static void fields(auto& self, auto&& f) { f("rate", self.rate); }
  bool operator==(const BalanceBias&) const = default;
};

}  // namespace plait
