// The ops of a schedule: small structs with exactly their own fields, in one variant. Only Move communicates.
// `fields` names the fields once, for print, parse and comparison. Operands and results, with their dims, stand beside
// each op: T tokens, D width, K routes of a token, E experts, R rows = [E, g.., C] (jagged) or [E, g.., W, C] (padded).
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gates/softmax/record.h"
#include "schedule/choices.h"
#include "schedule/type.h"

namespace plait {

// One atom of a move.
struct Leg {
  Atom atom = 0;
  Place from, to;
  bool operator==(const Leg&) const = default;
  auto operator<=>(const Leg&) const = default;
};
using Legs = std::vector<Leg>;

// (x..) -> (y..): the identity on the global array. Several values with the same legs are one step and one message;
// cells of rows do not travel beside values of fixed size.
// Lowered over cells of rows: (x.., then for each x its table as x is held and as y is held) -> (y..).
struct Move {
  static constexpr const char* kName = "move";
  Legs legs;
  static void fields(auto& self, auto&& f) { f("legs", self.legs); }
  bool operator==(const Move&) const = default;
};

// (a, b) [, table] -> the sum over the labels that `out` has not. Lowered to one (batched, grouped) matrix product.
struct Einsum {
  static constexpr const char* kName = "einsum";
  std::vector<std::string> out;
  static void fields(auto& self, auto&& f) { f("out", self.out); }
  bool operator==(const Einsum&) const = default;
};

// (x..) -> their sum; all of one type.
struct Add {
  static constexpr const char* kName = "add";
  static void fields(auto&, auto&&) {}
  bool operator==(const Add&) const = default;
};

// x -> factor * x
struct Scale {
  static constexpr const char* kName = "scale";
  double factor = 1;
  static void fields(auto& self, auto&& f) { f("factor", self.factor); }
  bool operator==(const Scale&) const = default;
};

// x -> x in another element type: the same numbers up to rounding. Linear, so legal on a partial sum too; the transpose
// casts back. In a list of one precision it changes nothing.
struct Cast {
  static constexpr const char* kName = "cast";
  Dtype to = Dtype::full;
  static void fields(auto& self, auto&& f) { f("to", self.to); }
  bool operator==(const Cast&) const = default;
};

// x -> its `parts` chunks along dim.
struct Split {
  static constexpr const char* kName = "split";
  std::string dim, id;
  int parts = 1;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("id", self.id), f("parts", self.parts); }
  bool operator==(const Split&) const = default;
};

// (the chunks of a split, in order..) -> x
struct Concat {
  static constexpr const char* kName = "concat";
  std::string dim, id;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("id", self.id); }
  bool operator==(const Concat&) const = default;
};

// x, I over the atoms -> scale * x with dim repeated, each copy on its own rank of the atoms: copies of the same tokens
// as distinct ones. Equality of the copies is trusted, not typed. The transpose is pick, with a factor for the number
// of copies.
struct Dup {
  static constexpr const char* kName = "dup";
  std::string dim;
  std::vector<Atom> atoms;
  double scale = 1;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("atoms", self.atoms), f("scale", self.scale); }
  bool operator==(const Dup&) const = default;
};

// Back from dup: x, sharded over the atoms along dim -> scale * this rank's copy, as the one that all ranks hold.
struct Pick {
  static constexpr const char* kName = "pick";
  std::string dim;
  std::vector<Atom> atoms;
  double scale = 1;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("atoms", self.atoms), f("scale", self.scale); }
  bool operator==(const Pick&) const = default;
};

// x[T, ..] -> [B, S, ..] with T = B * S; the stack stays on the major dim.
struct Unflatten {
  static constexpr const char* kName = "unflatten";
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
  std::string dim, major, minor;
  static void fields(auto& self, auto&& f) { f("dim", self.dim), f("major", self.major), f("minor", self.minor); }
  bool operator==(const Flatten&) const = default;
};

// x -> [Z]: this rank's elements in one dim, with zeros behind them up to `size`, so that any number of ranks can share
// them out. Z's stack is that of all dims of x, in their order. Linear; legal on partial sums.
struct Pack {
  static constexpr const char* kName = "pack";
  int64_t size = 1;  // of a rank
  static void fields(auto& self, auto&& f) { f("size", self.size); }
  bool operator==(const Pack&) const = default;
};

// [Z] -> x with these dims, back from pack.
struct Unpack {
  static constexpr const char* kName = "unpack";
  std::vector<Dim> dims;
  static void fields(auto& self, auto&& f) { f("dims", self.dims); }
  bool operator==(const Unpack&) const = default;
};

// x -> act(x); glu: x[.., U=2, F] -> act(x[.., 0, F]) * x[.., 1, F]. Legal on rows.
struct Activate {
  static constexpr const char* kName = "activate";
  Act act = Act::silu;
  bool glu = false;
  static void fields(auto& self, auto&& f) { f("act", self.act), f("glu", self.glu); }
  bool operator==(const Activate&) const = default;
};

// (x, dy) -> dx
struct ActivateGrad {
  static constexpr const char* kName = "activate_grad";
  Act act = Act::silu;
  bool glu = false;
  static void fields(auto& self, auto&& f) { f("act", self.act), f("glu", self.glu); }
  bool operator==(const ActivateGrad&) const = default;
};

// (x[T, D], gain[D]) -> y = gain * x / sqrt(mean(x^2) + eps)
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const RmsNorm&) const = default;
};

// (x, gain, dy) -> (dx, dgain)
struct RmsNormGrad {
  static constexpr const char* kName = "rms_norm_grad";
  double eps = 1e-5;
  static void fields(auto& self, auto&& f) { f("eps", self.eps); }
  bool operator==(const RmsNormGrad&) const = default;
};

// x[B, S, H, A] -> the same, each pair (i, i + A/2) turned by its position; inverse is the transpose.
struct Rope {
  static constexpr const char* kName = "rope";
  double theta = 10000;
  Direction direction = Direction::forward;
  static void fields(auto& self, auto&& f) { f("theta", self.theta), f("direction", self.direction); }
  bool operator==(const Rope&) const = default;
};

// (q[B, S, H, A], k[B, S, J, A], v[B, S, J, A]) -> (o[B, S, H, A], lse[B, H, S]); causal, J divides H, scale 1/sqrt(A).
struct Attention {
  static constexpr const char* kName = "attention";
  static void fields(auto&, auto&&) {}
  bool operator==(const Attention&) const = default;
};

// (q, k, v, o, lse, do) -> (dq, dk, dv)
struct AttentionGrad {
  static constexpr const char* kName = "attention_grad";
  static void fields(auto&, auto&&) {}
  bool operator==(const AttentionGrad&) const = default;
};

// (table[V, D], ids[T]) -> y[T, D]: the product of a one-hot [T, V] with the table; ids outside this rank's V give zero
// rows.
struct Embed {
  static constexpr const char* kName = "embed";
  static void fields(auto&, auto&&) {}
  bool operator==(const Embed&) const = default;
};

// (dy[T, D], ids[T]) -> dtable[V, D]; `vocab` is the table's dim V with its stack.
struct EmbedGrad {
  static constexpr const char* kName = "embed_grad";
  Dim vocab;
  static void fields(auto& self, auto&& f) { f("vocab", self.vocab); }
  bool operator==(const EmbedGrad&) const = default;
};

// z[T, V] -> side [T, m..]: the greatest of this rank's part of V; one column per rank of each atom that V is split
// over.
struct RowMax {
  static constexpr const char* kName = "row_max";
  static void fields(auto&, auto&&) {}
  bool operator==(const RowMax&) const = default;
};

// (z[T, V], max[T, m..], target[T]) -> (s[T], c[T]), M = max over m: s = sum_v exp(z - M), c = z[target] - M if it is
// here, else 0.
struct ExpSumTarget {
  static constexpr const char* kName = "exp_sum_target";
  static void fields(auto&, auto&&) {}
  bool operator==(const ExpSumTarget&) const = default;
};

// (z, max, target, ds, dc) -> dz
struct ExpSumTargetGrad {
  static constexpr const char* kName = "exp_sum_target_grad";
  static void fields(auto&, auto&&) {}
  bool operator==(const ExpSumTargetGrad&) const = default;
};

// (s[T], c[T], weight[T]) -> [] = sum_t weight * (log s - c)
struct Nll {
  static constexpr const char* kName = "nll";
  static void fields(auto&, auto&&) {}
  bool operator==(const Nll&) const = default;
};

// (s, weight, dloss[]) -> (ds, dc)
struct NllGrad {
  static constexpr const char* kName = "nll_grad";
  static void fields(auto&, auto&&) {}
  bool operator==(const NllGrad&) const = default;
};

// The choice of experts: (logits[T, E], mask[T] [, bias[E]] [, step_key[]]) -> (weight[T, K], idx[T, K], slot[T, K]);
// idx -1: padding; slot -1: dropped, else the place among the kept routes of that expert within the gate group of
// `group` tokens. The bias is of the gates that have one, the key of those that draw; neither has a gradient.
struct Route {
  static constexpr const char* kName = "route";
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
  int64_t experts = 1, top_k = 1, capacity = 0, group = 0;
  static void fields(auto& self, auto&& f) {
    f("experts", self.experts), f("top_k", self.top_k), f("capacity", self.capacity), f("group", self.group);
  }
  bool operator==(const HashRoute&) const = default;
};

// (x[T, D], step_key[]) -> each element times a random factor of 1 - amount to 1 + amount. Its own transpose.
struct Jitter {
  static constexpr const char* kName = "jitter";
  double amount = 0.01;
  int64_t stream = 0;
  static void fields(auto& self, auto&& f) { f("amount", self.amount), f("stream", self.stream); }
  bool operator==(const Jitter&) const = default;
};

// (logits[T, E], spread[T, E], step_key[]) -> logits + a standard normal draw * softplus(spread).
struct Noise {
  static constexpr const char* kName = "noise";
  int64_t stream = 0;
  static void fields(auto& self, auto&& f) { f("stream", self.stream); }
  bool operator==(const Noise&) const = default;
};

// (spread, step_key, dnoisy) -> dspread; dlogits is dnoisy.
struct NoiseGrad {
  static constexpr const char* kName = "noise_grad";
  int64_t stream = 0;
  static void fields(auto& self, auto&& f) { f("stream", self.stream); }
  bool operator==(const NoiseGrad&) const = default;
};

// (logits[T, E], spread[T, E], noisy[T, E], mask[T]) -> (importance[E], load[E]), sums over real tokens of the softmax
// over the top_k of noisy, and of the probability that an expert would be among them if its own noise were drawn again.
struct NoisyStats {
  static constexpr const char* kName = "noisy_stats";
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("top_k", self.top_k); }
  bool operator==(const NoisyStats&) const = default;
};

// (logits, spread, noisy, mask, dimportance, dload) -> (dlogits, dspread, dnoisy)
struct NoisyStatsGrad {
  static constexpr const char* kName = "noisy_stats_grad";
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("top_k", self.top_k); }
  bool operator==(const NoisyStatsGrad&) const = default;
};

// (importance[E], load[E], share[]) -> [] = share * coef * (cv2(importance) + cv2(load)) / 2, cv2 = variance / mean^2.
struct Variation {
  static constexpr const char* kName = "variation";
  double coef = 0;
  static void fields(auto& self, auto&& f) { f("coef", self.coef); }
  bool operator==(const Variation&) const = default;
};

// (importance, load, share, dloss) -> (dimportance, dload)
struct VariationGrad {
  static constexpr const char* kName = "variation_grad";
  double coef = 0;
  static void fields(auto& self, auto&& f) { f("coef", self.coef); }
  bool operator==(const VariationGrad&) const = default;
};

// (logits, idx, slot, dweight) -> dlogits
struct RouteGrad {
  static constexpr const char* kName = "route_grad";
  Route route;
  static void fields(auto& self, auto&& f) { Route::fields(self.route, f); }
  bool operator==(const RouteGrad&) const = default;
};

// (logits[T, E], mask[T]) -> (psum[E] = sum_t mask * score, zsum[] = sum_t mask * logsumexp^2). group > 0: psum[W, E]
// and zsum[W], one of each for every `group` tokens of the world, held S where the ranks of an atom have whole groups
// of their own and P where they share one.
struct GateStats {
  static constexpr const char* kName = "gate_stats";
  int64_t group = 0;
  Score score = Score::softmax;
  static void fields(auto& self, auto&& f) { f("group", self.group), f("score", self.score); }
  bool operator==(const GateStats&) const = default;
};

// (logits, mask, dpsum, dzsum) -> dlogits
struct GateStatsGrad {
  static constexpr const char* kName = "gate_stats_grad";
  int64_t group = 0;
  Score score = Score::softmax;
  static void fields(auto& self, auto&& f) { f("group", self.group), f("score", self.score); }
  bool operator==(const GateStatsGrad&) const = default;
};

// (idx[T, K], slot[T, K]) -> side (chosen[E], kept[E]): routes per expert, before and after dropping; group as in
// gate_stats.
struct Load {
  static constexpr const char* kName = "load";
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
  double aux = 0, z = 0;
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("aux", self.aux), f("z", self.z), f("top_k", self.top_k); }
  bool operator==(const Balance&) const = default;
};

// (chosen, inv_tokens, share, dloss) -> (dpsum, dzsum)
struct BalanceGrad {
  static constexpr const char* kName = "balance_grad";
  double aux = 0, z = 0;
  int64_t top_k = 1;
  static void fields(auto& self, auto&& f) { f("aux", self.aux), f("z", self.z), f("top_k", self.top_k); }
  bool operator==(const BalanceGrad&) const = default;
};

// How routed tokens lie in a buffer. capacity 0: jagged, [E, g.., C] with one digit dim g per atom of the mesh (slow to
// fast: the order of tokens) and a table of rows per cell; with chunks > 1 a digit h stands in front, the part of each
// cell's tokens, so that a chunk is one run of the buffer. Otherwise padded: [E, g.., W, C] with a digit dim per atom
// of the tokens' own stack, W gate groups of `group` tokens on each rank, C = capacity slots.
struct Routing {
  std::string id;
  int64_t experts = 1, top_k = 1, capacity = 0, group = 0, chunks = 1;
  static void fields(auto& self, auto&& f) {
    f("id", self.id), f("experts", self.experts), f("top_k", self.top_k), f("capacity", self.capacity),
        f("group", self.group), f("chunks", self.chunks);
  }
  bool operator==(const Routing&) const = default;
};

// (idx[T, K], slot[T, K]) -> int [m..]: the most rows that one cell of this rank has; one column for each rank of the
// atoms that the tokens are split over.
struct Busiest {
  static constexpr const char* kName = "busiest";
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Busiest&) const = default;
};

// (idx[T, K], slot[T, K] [, most[m..]]) -> (table [h, E, g..], places [T, K] of each chunk) of a jagged routing. With
// `most`, every cell has as many rows as the greatest of it; rows that no route fills are zero.
struct Count {
  static constexpr const char* kName = "count";
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Count&) const = default;
};

// (idx[T, K], slot[T, K]) -> (node[T, N], slot[T, N], kept[T, K]), N = min(K, nodes): the nodes that a token's routes
// go to, each once, -1 behind the last; and the experts of the routes that were kept, -1 for any other. Experts lie on
// the nodes in order.
struct Nodes {
  static constexpr const char* kName = "nodes";
  int64_t nodes = 1, experts = 1;
  static void fields(auto& self, auto&& f) { f("nodes", self.nodes), f("experts", self.experts); }
  bool operator==(const Nodes&) const = default;
};

// Of rows whose E counts nodes, (kept [E, g.., C, K] [, table of these rows]) -> (table [E, g..], places [E, g.., C,
// K]) of a routing within the nodes, whose tokens these rows are: encode, decode and pair then lead to rows [E, g.., C]
// by expert. The cells keep their digits, so a table by expert is what a count of all tokens would have given.
struct CountWithin {
  static constexpr const char* kName = "count_within";
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const CountWithin&) const = default;
};

// (idx, slot) -> places [T, K] of a padded routing
struct Arrange {
  static constexpr const char* kName = "arrange";
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Arrange&) const = default;
};

// (x[T, ..], [weight[T, K]], places [, table]) -> rows [R, ..]: token t at each of its places. encode, decode and pair
// are the three partial derivatives of one form sum_tk w[t,k] x[t] . rows[place[t,k]].
struct Encode {
  static constexpr const char* kName = "encode";
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Encode&) const = default;
};

// (rows, [weight[T, K]], places) -> y[T, ..] = sum_k weight * rows[place]
struct Decode {
  static constexpr const char* kName = "decode";
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Decode&) const = default;
};

// (x[T, ..], rows, places) -> dweight[T, K] = <x[t], rows[place[t, k]]>
struct Pair {
  static constexpr const char* kName = "pair";
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Pair&) const = default;
};

// (sum, x) -> sum + x, in place of sum.
struct Accumulate {
  static constexpr const char* kName = "accumulate";
  static void fields(auto&, auto&&) {}
  bool operator==(const Accumulate&) const = default;
};

// (g..) -> side [] = the sum of squares of all their elements; P over the atoms that they are sharded on, so all must
// be held alike.
struct SumSquares {
  static constexpr const char* kName = "sum_squares";
  static void fields(auto&, auto&&) {}
  bool operator==(const SumSquares&) const = default;
};

// (sum of squares [], [scale []]) -> side (norm[], factor[]): norm = sqrt, factor = min(1, clip / (norm + 1e-6)), 1
// when clip is 0. With a scale, that of the loss, the gradients are so many times too large: norm and factor are
// divided by it, and where the norm is not finite the factor is not a number, which tells the update to change nothing.
struct ClipFactor {
  static constexpr const char* kName = "clip_factor";
  double clip = 0;
  static void fields(auto& self, auto&& f) { f("clip", self.clip); }
  bool operator==(const ClipFactor&) const = default;
};

// (param, grad, m, v, factor[], lr[], step[]) -> (param, m, v), each in place; as they are where factor is not a
// number.
struct AdamW {
  static constexpr const char* kName = "adamw";
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  static void fields(auto& self, auto&& f) {
    f("beta1", self.beta1), f("beta2", self.beta2), f("eps", self.eps), f("weight_decay", self.weight_decay);
  }
  bool operator==(const AdamW&) const = default;
};

// (param, grad, factor[], lr[]) -> param, in place; as it is where factor is not a number.
struct Sgd {
  static constexpr const char* kName = "sgd";
  double weight_decay = 0;
  static void fields(auto& self, auto&& f) { f("weight_decay", self.weight_decay); }
  bool operator==(const Sgd&) const = default;
};

// (bias[E], chosen[E] [, factor[] of the update]) -> bias, in place: up by `rate` where the load is below the mean,
// down where it is above; as it is where factor is not a number.
struct BalanceBias {
  static constexpr const char* kName = "balance_bias";
  double rate = 0;
  static void fields(auto& self, auto&& f) { f("rate", self.rate); }
  bool operator==(const BalanceBias&) const = default;
};

using Op = std::variant<Move, Einsum, Add, Scale, Cast, Split, Concat, Dup, Pick, Unflatten, Flatten, Pack, Unpack,
                        Activate, ActivateGrad, RmsNorm, RmsNormGrad, Rope, Attention, AttentionGrad, Embed, EmbedGrad,
                        RowMax, ExpSumTarget, ExpSumTargetGrad, Nll, NllGrad, Route, RouteGrad, GateStats,
                        GateStatsGrad, Load, Balance, BalanceGrad, Count, Arrange, Encode, Decode, Pair, Accumulate,
                        SumSquares, ClipFactor, AdamW, Sgd, HashRoute, Jitter, BalanceBias, Noise, NoiseGrad,
                        NoisyStats, NoisyStatsGrad, Variation, VariationGrad, Nodes, CountWithin, Busiest>;

template <>
struct EnumNames<Dtype> {
  static constexpr std::array<std::string_view, 2> names = {"real", "full"};
};

template <class T>
const T* as(const Op& op) {
  return std::get_if<T>(&op);
}

std::string_view name(const Op& op);

// ---- moves

enum class MoveKind { enter, leave, gather, scatter, slice, join, exchange, sum, part, pad };
enum class Collective { none, all_reduce, all_gather, reduce_scatter, all_to_all };

std::string_view name(MoveKind kind);
std::string_view name(Collective collective);

// The kind of a leg, or nullptr where no move takes `from` to `to`.
const MoveKind* find_kind(Hold from, Hold to);
const MoveKind* find_kind(const Leg& leg);
Collective collective(MoveKind kind);
std::vector<MoveKind> kinds(const Legs& legs);  // sorted, each once
std::string title(const Legs& legs);            // "exchange+gather"
Collective collective(const Legs& legs);        // one kind of message: its own; a fused message: all_to_all
Legs wire_legs(const Legs& legs);               // the legs that communicate
Legs transpose(const Legs& legs);               // (a, f, t) -> (a, dual t, dual f)

}  // namespace plait
