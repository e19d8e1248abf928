// Norms, and ops on each token's elements beside them.
#pragma once
#include "schedule/traits.h"

namespace plait {

// (x[.., D], gain[D]) -> y = gain * x / sqrt(mean(x^2) + eps), the mean over the gain's dim, the last of x
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::routed,
                                  .cost = traits::streams(1.6),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const RmsNorm&) const = default;
};

// (x, gain, dy) -> (dx, dgain)
struct RmsNormGrad {
  static constexpr const char* kName = "rms_norm_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::norm_grad,
                                  .cost = traits::streams(2),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const RmsNormGrad&) const = default;
};

// (x[.., D], gain[D], bias[D]) -> y = gain * (x - mean) / sqrt(variance + eps) + bias, both of the last dim of x.
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::routed,
                                  .cost = traits::streams(1.8),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const LayerNorm&) const = default;
};

// (x, gain, dy) -> (dx, dgain, dbias)
struct LayerNormGrad {
  static constexpr const char* kName = "layer_norm_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::layer_norm_grad,
                                  .cost = traits::streams(2.2),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const LayerNormGrad&) const = default;
};

// x[T, ..] -> s[T] = the mean of the squares of a token's elements, over all ranks: a partial sum where these are
// split.
struct MeanSquare {
  static constexpr const char* kName = "mean_square";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::to_full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const MeanSquare&) const = default;
};

// (x, ds) -> dx
struct MeanSquareGrad {
  static constexpr const char* kName = "mean_square_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::routed,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const MeanSquareGrad&) const = default;
};

// (x[T, ..], s[T], gain[..]) -> y = gain * x / sqrt(s + eps): RMSNorm of dims that ranks have in parts, s from
// mean_square.
struct RmsScale {
  static constexpr const char* kName = "rms_scale";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::routed,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const RmsScale&) const = default;
};

// (x, s, gain, dy) -> (dx, ds, dgain)
struct RmsScaleGrad {
  static constexpr const char* kName = "rms_scale_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::rms_scale_grad,
                                  .cost = traits::streams(1.5),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const RmsScaleGrad&) const = default;
};

// (x[.., n..], b[n..]) -> x + b: a bias of the last dims. Of rows (x[.., E, .., F], b[E, F] [, table]): of each expert.
struct AddBias {
  static constexpr const char* kName = "add_bias";
  static constexpr Traits kTraits{.memory = traits::kOver,
                                  .elements = traits::routed,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const AddBias&) const = default;
};

// (dy [, table]) -> its sum over all dims but the last ones, `dims`; of rows over all but E and the last one.
struct BiasGrad {
  static constexpr const char* kName = "bias_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::to_full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::vector<std::string> dims;
  static void fields(auto& self, auto&& f) { f("dims", self.dims); }
  bool operator==(const BiasGrad&) const = default;
};

// x -> x, no element beyond the bound on either side. Legal on rows.
struct Clip {
  static constexpr const char* kName = "clip";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double bound = 1;
  static void fields(auto& self, auto&& f) { f("bound", self.bound); }
  bool operator==(const Clip&) const = default;
};

// (x, dy) -> dx: dy where x was not clipped, else 0.
struct ClipGrad {
  static constexpr const char* kName = "clip_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double bound = 1;
  static void fields(auto& self, auto&& f) { f("bound", self.bound); }
  bool operator==(const ClipGrad&) const = default;
};

// (x[T, D], z[T, G=1]) -> y = sigmoid(z) * x: each token by a gate of its own.
struct TokenGate {
  static constexpr const char* kName = "token_gate";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::routed,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const TokenGate&) const = default;
};

// (x, z, dy) -> (dx, dz)
struct TokenGateGrad {
  static constexpr const char* kName = "token_gate_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::norm_grad,
                                  .cost = traits::streams(1.5),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const TokenGateGrad&) const = default;
};

}  // namespace plait
