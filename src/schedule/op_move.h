// The op that communicates: one leg an atom, and what kind of message legs make.
#pragma once
#include "base/collective.h"
#include "schedule/traits.h"

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
  static constexpr Traits kTraits{.memory = {.may = traits::moved, .does = traits::fits_in_one_piece},
                                  .elements = traits::moved_alike,
                                  .cost = traits::kStream,
                                  .kept = Kept::message,
                                  .hoist = traits::kStays,
                                  .scratch = traits::no_scratch};
  Legs legs;
  static void fields(auto& self, auto&& f) { f("legs", self.legs); }
  bool operator==(const Move&) const = default;
};

enum class MoveKind { enter, leave, gather, scatter, slice, join, exchange, sum, part, pad };

std::string_view name(MoveKind kind);

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
