// The type of a value: ONE global array, and how ranks hold it. A schedule whose types check computes what one rank
// would.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/mesh.h"

namespace plait {

// How the ranks along one atom hold a value. The cotangent of I is I, of R is P, of P is R, of S is S.
enum class Hold : char {
  I = 'I',  // invariant: the same on all ranks, and so is its cotangent
  R = 'R',  // replicate: the same on all ranks, each rank's use gives its own part of the cotangent
  P = 'P',  // partial: the true value is the sum over ranks
  S = 'S',  // shard: this rank holds its chunk of one dim
};

Hold dual(Hold hold);

// One entry of a dim's stack, major to minor: an atom, or the mark of a chunk (`split`).
struct Mark {
  Atom atom = -1;          // >= 0: split over the ranks of this atom
  std::string split = {};  // else: part `part` of `parts` of the split with this name
  int part = 0, parts = 0;
  bool is_atom() const { return atom >= 0; }
  bool operator==(const Mark&) const = default;
};

// A named dim. `size` is that of the global array (of the chunk, where the stack holds chunk marks). Moves push and pop
// only the end of `stack`, so a rank's data is always one contiguous chunk in global order.
// A jagged dim (non-empty `table`) has, for each cell of the dims left of it (its prefix), as many entries as the
// table of that name says; its `size` is the expected number per cell and serves planning only.
struct Dim {
  std::string name;
  int64_t size = 0;
  std::vector<Mark> stack = {};
  std::string table = {};
  bool jagged() const { return !table.empty(); }
  bool holds(Atom atom) const;
  bool operator==(const Dim&) const = default;
};

// A hold, and for S the dim.
struct Place {
  Hold hold = Hold::I;
  std::string dim = {};
  bool operator==(const Place&) const = default;
  auto operator<=>(const Place&) const = default;
};

std::string to_string(const Place& place);  // "I", "S(T)"

// How many real element types a list has. one: all values are `real`. mixed: activations, products and messages are
// `real`, of 2 bytes; parameters, statistics, gates, losses and the update are `full`, of 4.
enum class Precision { one, mixed };

// real: the element type of the run. full: float32 where that has 2 bytes (mixed precision); else the same as real.
// wide: float64 in every run: the norm, and scalars that are fed.
enum class Dtype { real, full, integer, wide };
std::string_view name(Dtype dtype);

// What an integer value is about: nothing special, the table of a routing, or the places of its routes in this rank's
// buffer.
enum class Role { plain, table, places };

struct Type {
  std::vector<Dim> dims;
  std::vector<Hold> holds;  // by atom; S: the atom is on the stack of one dim
  Dtype dtype = Dtype::real;
  bool grad = true;  // false: a side value (positions, masks, ids, tables), no cotangent
  Role role = Role::plain;
  std::string routing = {};  // which routing a table or places belong to
  int chunk = 0;             // places: of which chunk of the routing

  bool operator==(const Type&) const = default;

  Place place(Atom atom) const;
  const Dim* find(std::string_view dim) const;
  Dim* find(std::string_view dim);
  bool has(std::string_view dim) const { return find(dim) != nullptr; }
  int jagged_index() const;         // index of the jagged dim, -1 without
  std::vector<Dim> prefix() const;  // the dims left of the jagged dim
  std::vector<std::string> dim_names() const;
};

Type dual(Type type);  // type of the cotangent

// Local sizes on every rank (all equal); the expected number for a jagged dim.
std::vector<int64_t> local_shape(const Mesh& mesh, const Type& type);
int64_t local_size(const Mesh& mesh, const Dim& dim);
int64_t local_elements(const Mesh& mesh, const Type& type);

// The range [first, first + size) of a dim's global indices that a rank holds.
struct Range {
  int64_t first = 0, size = 0;
  bool operator==(const Range&) const = default;
};
Range local_range(const Mesh& mesh, const Dim& dim, int rank);
Range intersect(Range a, Range b);

// "real [T=64/dp.ep, D=16] R(tp.esp)": sizes, stacks (major to minor), then the atoms held R and P; I is not written.
std::string to_string(const Mesh& mesh, const Type& type);
std::string to_string(const Mesh& mesh, const std::vector<Dim>& dims);

std::vector<std::string> names(const std::vector<Dim>& dims);

}  // namespace plait
