// Ops of rows: counted, made of tokens, read back.
#pragma once
#include "schedule/traits.h"

namespace plait {

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
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::always,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Busiest&) const = default;
};

// (idx[T, K], slot[T, K] [, most[m..]]) -> (table [h, E, g..], places [T, K] of each chunk) of a jagged routing. With
// `most`, every cell has as many rows as the greatest of it; rows that no route fills are zero.
struct Count {
  static constexpr const char* kName = "count";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::per_token(1200),
                                  .kept = Kept::always,
                                  .hoist = {.slices = traits::of_routes_alone, .joins = Joins::stay},
                                  .scratch = traits::no_scratch};
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Count&) const = default;
};

// (idx[T, K], slot[T, K]) -> (node[T, N], slot[T, N], kept[T, K]), N = min(K, nodes): the nodes that a token's routes
// go to, each once, -1 behind the last; and the experts of the routes that were kept, -1 for any other. Experts lie on
// the nodes in order.
struct Nodes {
  static constexpr const char* kName = "nodes";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::always,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  int64_t nodes = 1, experts = 1;
  static void fields(auto& self, auto&& f) { f("nodes", self.nodes), f("experts", self.experts); }
  bool operator==(const Nodes&) const = default;
};

// Of rows whose E counts nodes, (kept [E, g.., C, K] [, table of these rows]) -> (table [E, g..], places [E, g.., C,
// K]) of a routing within the nodes, whose tokens these rows are: encode, decode and pair then lead to rows [E, g.., C]
// by expert. The cells keep their digits, so a table by expert is what a count of all tokens would have given.
struct CountWithin {
  static constexpr const char* kName = "count_within";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::kStream,
                                  .kept = Kept::always,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const CountWithin&) const = default;
};

// (idx, slot) -> places [T, K] of a padded routing
struct Arrange {
  static constexpr const char* kName = "arrange";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::full,
                                  .cost = traits::per_token(1200),
                                  .kept = Kept::always,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Arrange&) const = default;
};

// (x[T, ..], [weight[T, K]], places [, table]) -> rows [R, ..]: token t at each of its places. encode, decode and pair
// are the three partial derivatives of one form sum_tk w[t,k] x[t] . rows[place[t,k]].
struct Encode {
  static constexpr const char* kName = "encode";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::routed,
                                  .cost = traits::streams(2.1),
                                  .kept = Kept::again,
                                  .hoist = {.slices = traits::of_dropless, .joins = Joins::stay},
                                  .scratch = traits::no_scratch};
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Encode&) const = default;
};

// (rows, [weight[T, K]], places) -> y[T, ..] = sum_k weight * rows[place]
struct Decode {
  static constexpr const char* kName = "decode";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::routed,
                                  .cost = traits::streams(2.2),
                                  .kept = Kept::again,
                                  .hoist = {.slices = traits::of_dropless, .joins = Joins::pass},
                                  .scratch = traits::no_scratch};
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Decode&) const = default;
};

// (x[T, ..], rows, places) -> dweight[T, K] = <x[t], rows[place[t, k]]>
struct Pair {
  static constexpr const char* kName = "pair";
  static constexpr Traits kTraits{.memory = traits::kFresh,
                                  .elements = traits::pair,
                                  .cost = traits::streams(2.2),
                                  .kept = Kept::again,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Routing routing;
  static void fields(auto& self, auto&& f) { Routing::fields(self.routing, f); }
  bool operator==(const Pair&) const = default;
};

}  // namespace plait
