// What passes, plan and run must know of an op beside its fields and its rules: one record of facts, the op's
// `kTraits`. No fact has a default: a record that leaves one out does not compile.
#pragma once
#include <type_traits>
#include <utility>

#include "schedule/type.h"

namespace plait {

struct Step;
struct ElementTyping;
using Types = std::vector<Type>;  // by ValueId

// A fact that must be stated.
template <class T>
class Fact {
 public:
  constexpr Fact(T fact) : fact_(std::move(fact)) {}
  template <class U>
  requires std::is_convertible_v<const U&, T>
  constexpr Fact(const U& fact) : fact_(fact) {}
  constexpr operator const T&() const { return fact_; }
  constexpr const T& operator*() const { return fact_; }

 private:
  T fact_;
};

struct TypedStep {
  const Mesh& mesh;
  const Types& types;
  const Step& step;

  const Type& in(size_t operand) const;
  const Type& out(size_t result) const;
};

// Result `out` may lie in the memory of operand `in`.
// view: it is that memory or a part of it. In a move of rows only where the rows are one run; else always.
// over: where the operand ends at this step and nobody shares its memory, it is that memory, written anew. Of several
// such operands the first one that ends.
// in_place: it is that memory, updated: nobody reads the operand afterwards.
struct Sharing {
  enum class How { view, over, in_place } how;
  int out, in;
  bool operator==(const Sharing&) const = default;
};

// Which results lie in the memory of which operands: what an op may do, and which of that it does for given types.
struct Memory {
  Fact<std::vector<Sharing> (*)(const Step&)> may;
  Fact<bool (*)(const TypedStep&, const Sharing&)> does;
};

// What a step reads of memory: its operands, or of a table as much as it writes.
enum class MemoryRead { operands, as_it_writes };

// Seconds of a step: as long as so many streams of what it reads and writes, and as moving so many bytes more for each
// token (for each of its routes, where they have routes); no streams: it only renames, and is free. Or, where that
// takes longer, its arithmetic at a pace that is relative to that of matrix products.
// The numbers are relative to `add` by the processor time that `plait bench step` tells of one rank on an x86-64 with
// AVX-512; the same within about a third for widths of 192 to 512, 8 to 64 experts, 2 to 4 of a token.
struct Cost {
  Fact<double> streams, bytes_per_token;
  Fact<MemoryRead> reads;
  Fact<double (*)(const TypedStep&)> flops;  // of one rank; rows at their expected number
  Fact<double> pace;
};

// Which results recomputation keeps. always: routes and their places. selective: what is dear to make. again: none.
// message: as the plan says of the message's kind.
enum class Kept { always, selective, again, message };

// A step of which the ranks of some atoms could each take their part of the tokens.
struct TokenCut {
  TypedStep at;
  const std::vector<Atom>& atoms;
  bool joins;  // each operand was joined over these atoms
};
enum class Joins { stay, pass };

// `slices`: whether they move up through the step, since each token's results are made of that token alone. Whether
// joins of its operands move down through it.
struct Hoisting {
  Fact<bool (*)(const TokenCut&)> slices;
  Fact<Joins> joins;
};

struct Traits {
  Memory memory;
  Fact<void (*)(const ElementTyping&)> elements;  // checks those of operands, sets those of results
  Cost cost;
  Fact<Kept> kept;
  Hoisting hoist;
  Fact<int64_t (*)(const TypedStep&)> scratch;  // bytes that a kernel needs beside its results; not a move's
};

// What traits are made of.
namespace traits {

using Sharings = std::vector<Sharing>;
Sharings fresh(const Step&);
Sharings view_first(const Step&);     // result 0 of operand 0
Sharings views_first(const Step&);    // every result of operand 0
Sharings view_unscaled(const Step&);  // dup, pick: a copy, unless there is a factor
Sharings over_first(const Step&);
Sharings over_either(const Step&);   // operand 0 or 1
Sharings update_first(const Step&);  // in place of operand 0
Sharings update_moments(const Step&);
Sharings moved(const Step&);

bool fits(const TypedStep&, const Sharing&);  // of any types
bool fits_in_one_piece(const TypedStep&, const Sharing&);
bool fits_split(const TypedStep&, const Sharing&);
bool fits_pack(const TypedStep&, const Sharing&);

inline constexpr Memory kFresh{.may = fresh, .does = fits}, kView{.may = view_first, .does = fits},
    kOver{.may = over_first, .does = fits}, kInPlace{.may = update_first, .does = fits};

void alike(const ElementTyping&);   // operands as the first, results too
void full(const ElementTyping&);    // all in full: statistics, gates, losses
void routed(const ElementTyping&);  // operands behind the first in full, results as the first
void cast_to(const ElementTyping&);
void moved_alike(const ElementTyping&);
void norm_grad(const ElementTyping&);
void attention(const ElementTyping&);
void attention_grad(const ElementTyping&);
void pair(const ElementTyping&);
void accumulate(const ElementTyping&);
void sum_squares(const ElementTyping&);
void clip_factor(const ElementTyping&);
void adamw(const ElementTyping&);
void sgd(const ElementTyping&);
void balance_bias(const ElementTyping&);

double no_flops(const TypedStep&);
double product_flops(const TypedStep&);
double attention_flops(const TypedStep&);
double attention_grad_flops(const TypedStep&);

constexpr Cost streams(double n) { return {n, 0, MemoryRead::operands, no_flops, 1}; }
constexpr Cost per_token(double bytes) { return {1, bytes, MemoryRead::operands, no_flops, 1}; }
constexpr Cost computes(double (*flops)(const TypedStep&), double pace) {
  return {1, 0, MemoryRead::operands, flops, pace};
}
inline constexpr Cost kRenames = streams(0), kStream = streams(1);

bool never(const TokenCut&);
bool always(const TokenCut&);
bool of_joins(const TokenCut&);
bool of_token_products(const TokenCut&);
bool of_whole_groups(const TokenCut&);  // a gate, while its groups are not cut
bool of_routes_alone(const TokenCut&);  // a count; not one whose padded cells are agreed on
bool of_dropless(const TokenCut&);

inline constexpr Hoisting kStays{.slices = never, .joins = Joins::stay};

int64_t no_scratch(const TypedStep&);
int64_t one_number(const TypedStep&);  // of 8 bytes

}  // namespace traits
}  // namespace plait
