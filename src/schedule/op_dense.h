// Ops that every transformer has: products, shapes, norm, attention, embedding, loss.
#pragma once
#include "schedule/choices.h"
#include "schedule/traits.h"

namespace plait {

// (a, b) [, table] -> the sum over the labels that `out` has not. Lowered to one (batched, grouped) matrix product.
struct Einsum {
  static constexpr const char* kName = "einsum";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::alike,
                                  .cost = traits::computes(traits::product_flops, 1),
                                  .kept = Kept::selective,
                                  .hoist = {.slices = traits::of_token_products, .joins = Joins::pass},
                                  .scratch = traits::no_scratch};
  std::vector<std::string> out;
  static void fields(auto& self, auto&& f) { f("out", self.out); }
  bool operator==(const Einsum&) const = default;
};

// (x..) -> their sum; all of one type.
struct Add {
  static constexpr const char* kName = "add";
  static constexpr Traits kTraits{.memory = {.may = traits::over_either, .does = traits::fits},
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = {.slices = traits::of_joins, .joins = Joins::pass},
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const Add&) const = default;
};

// x -> factor * x
struct Scale {
  static constexpr const char* kName = "scale";
  static constexpr Traits kTraits{.memory = traits::kOver,
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double factor = 1;
  static void fields(auto& self, auto&& f) { f("factor", self.factor); }
  bool operator==(const Scale&) const = default;
};

// x -> x in another element type: the same numbers up to rounding. Linear, so legal on a partial sum too; the transpose
// casts back. In a list of one precision it changes nothing.
struct Cast {
  static constexpr const char* kName = "cast";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::cast_to,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = {.slices = traits::always, .joins = Joins::pass},
                                  .scratch = traits::no_scratch};
  Dtype to = Dtype::full;
  static void fields(auto& self, auto&& f) { f("to", self.to); }
  bool operator==(const Cast&) const = default;
};

// x -> its `parts` chunks along dim.
struct Split {
  static constexpr const char* kName = "split";
  static constexpr Traits kTraits{.memory = {.may = traits::views_first, .does = traits::fits_split},
                                  .elements = traits::alike,
                                  .cost = traits::kRenames,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::string dim, id;
  int parts = 1;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("id", self.id), f("parts", self.parts); }
  bool operator==(const Split&) const = default;
};

// (the chunks of a split, in order..) -> x
struct Concat {
  static constexpr const char* kName = "concat";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::string dim, id;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("id", self.id); }
  bool operator==(const Concat&) const = default;
};

// x, I over the atoms -> scale * x with dim repeated, each copy on its own rank of the atoms: copies of the same tokens
// as distinct ones. Equality of the copies is trusted, not typed. The transpose is pick, with a factor for the number
// of copies.
struct Dup {
  static constexpr const char* kName = "dup";
  static constexpr Traits kTraits{.memory = {.may = traits::view_unscaled, .does = traits::fits},
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::string dim;
  std::vector<Atom> atoms;
  double scale = 1;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("atoms", self.atoms), f("scale", self.scale); }
  bool operator==(const Dup&) const = default;
};

// Back from dup: x, sharded over the atoms along dim -> scale * this rank's copy, as the one that all ranks hold.
struct Pick {
  static constexpr const char* kName = "pick";
  static constexpr Traits kTraits{.memory = {.may = traits::view_unscaled, .does = traits::fits},
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::string dim;
  std::vector<Atom> atoms;
  double scale = 1;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("atoms", self.atoms), f("scale", self.scale); }
  bool operator==(const Pick&) const = default;
};

// x[T, ..] -> [B, S, ..] with T = B * S; the stack stays on the major dim.
struct Unflatten {
  static constexpr const char* kName = "unflatten";
  static constexpr Traits kTraits{.memory = traits::kView,
                                  .elements = traits::alike,
                                  .cost = traits::kRenames,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::string dim, major, minor;
  int64_t minor_size = 1;
  static void fields(auto& self, auto&& f) {
    f("dim", self.dim), f("major", self.major), f("minor", self.minor), f("minor_size", self.minor_size);
  }
  bool operator==(const Unflatten&) const = default;
};

// x[B, S, ..] -> [T, ..], back from unflatten.
struct Flatten {
  static constexpr const char* kName = "flatten";
  static constexpr Traits kTraits{.memory = traits::kView,
                                  .elements = traits::alike,
                                  .cost = traits::kRenames,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::string dim, major, minor;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("major", self.major), f("minor", self.minor); }
  bool operator==(const Flatten&) const = default;
};

// x -> [Z]: this rank's elements in one dim, with zeros behind them up to `size`, so that any number of ranks can share
// them out. Z's stack is that of all dims of x, in their order. Linear; legal on partial sums.
struct Pack {
  static constexpr const char* kName = "pack";
  static constexpr Traits kTraits{.memory = {.may = traits::view_first, .does = traits::fits_pack},
                                  .elements = traits::alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t size = 1;  // of a rank
  static void fields(auto& self, auto&& f) { f("size", self.size); }
  bool operator==(const Pack&) const = default;
};

// [Z] -> x with these dims, back from pack.
struct Unpack {
  static constexpr const char* kName = "unpack";
  static constexpr Traits kTraits{.memory = traits::kView,
                                  .elements = traits::alike,
                                  .cost = traits::kRenames,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  std::vector<Dim> dims;
  static void fields(auto& self, auto&& f) { f("dims", self.dims); }
  bool operator==(const Unpack&) const = default;
};

// x -> act(x); glu: x[.., U=2, F] -> act(x[.., 0, F]) * x[.., 1, F]. Legal on rows.
struct Activate {
  static constexpr const char* kName = "activate";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::alike,
                                  .cost = traits::streams(1.8),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Act act = Act::silu;
  bool glu = false;
  static void fields(auto& self, auto&& f) { f("act", self.act), f("glu", self.glu); }
  bool operator==(const Activate&) const = default;
};

// (x, dy) -> dx
struct ActivateGrad {
  static constexpr const char* kName = "activate_grad";
  static constexpr Traits kTraits{.memory = traits::kOver,
                                  .elements = traits::alike,
                                  .cost = traits::streams(1.5),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Act act = Act::silu;
  bool glu = false;
  static void fields(auto& self, auto&& f) { f("act", self.act), f("glu", self.glu); }
  bool operator==(const ActivateGrad&) const = default;
};

// (x[T, D], gain[D]) -> y = gain * x / sqrt(mean(x^2) + eps)
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

// x[B, S, H, A] -> the same, each pair (i, i + A/2) turned by its position; inverse is the transpose.
struct Rope {
  static constexpr const char* kName = "rope";
  static constexpr Traits kTraits{.memory = traits::kOver,
                                  .elements = traits::alike,
                                  .cost = traits::streams(1.2),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  double theta = 10000;
  Direction direction = Direction::forward;
  static void fields(auto& self, auto&& f) { f("theta", self.theta), f("direction", self.direction); }
  bool operator==(const Rope&) const = default;
};

// (q[B, S, H, A], k[B, S, J, A], v[B, S, J, A]) -> (o[B, S, H, A], lse[B, H, S]); causal, J divides H, scale 1/sqrt(A).
struct Attention {
  static constexpr const char* kName = "attention";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::attention,
                                  .cost = traits::computes(traits::attention_flops, 1 / 2.7),
                                  .kept = Kept::selective,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const Attention&) const = default;
};

// (q, k, v, o, lse, do) -> (dq, dk, dv)
struct AttentionGrad {
  static constexpr const char* kName = "attention_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::attention_grad,
                                  .cost = traits::computes(traits::attention_grad_flops, 1 / 1.9),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const AttentionGrad&) const = default;
};

// (table[V, D], ids[T]) -> y[T, D]: the product of a one-hot [T, V] with the table; ids outside this rank's V give zero
// rows.
struct Embed {
  static constexpr const char* kName = "embed";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::alike,
                                  .cost = {4, 0, MemoryRead::as_it_writes, traits::no_flops, 1},
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const Embed&) const = default;
};

// (dy[T, D], ids[T]) -> dtable[V, D]; `vocab` is the table's dim V with its stack.
struct EmbedGrad {
  static constexpr const char* kName = "embed_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::alike,
                                  .cost = traits::streams(1.6),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Dim vocab;
  static void fields(auto& self, auto&& f) { f("vocab", self.vocab); }
  bool operator==(const EmbedGrad&) const = default;
};

// z[T, V] -> side [T, m..]: the greatest of this rank's part of V; one column per rank of each atom that V is split
// over.
struct RowMax {
  static constexpr const char* kName = "row_max";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::streams(2),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const RowMax&) const = default;
};

// (z[T, V], max[T, m..], target[T]) -> (s[T], c[T]), M = max over m: s = sum_v exp(z - M), c = z[target] - M if it is
// here, else 0.
struct ExpSumTarget {
  static constexpr const char* kName = "exp_sum_target";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::streams(6),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const ExpSumTarget&) const = default;
};

// (z, max, target, ds, dc) -> dz
struct ExpSumTargetGrad {
  static constexpr const char* kName = "exp_sum_target_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::streams(2.9),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const ExpSumTargetGrad&) const = default;
};

// (s[T], c[T], weight[T]) -> [] = sum_t weight * (log s - c)
struct Nll {
  static constexpr const char* kName = "nll";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const Nll&) const = default;
};

// (s, weight, dloss[]) -> (ds, dc)
struct NllGrad {
  static constexpr const char* kName = "nll_grad";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  static void fields(auto&, auto&&) {}
  bool operator==(const NllGrad&) const = default;
};

}  // namespace plait
