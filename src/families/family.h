// What a family of MoE schedules is: how tokens reach the experts and come back. Everything that depends on the family
// asks its record; each is a file of this folder, or of a program that hands down a catalogue with more.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/builder.h"

namespace plait {

// How rows cross the network when ep spans nodes. direct: one message. levels: one between nodes, one within. node: a
// token goes once to each node that has experts of it, and is copied there for each of them.
enum class Dispatch { direct, levels, node };

// What a way out is written with. Legs over no atoms take no step.
struct Leaving {
  Atoms tp, esp;
  Atoms far;          // of ep: those that have a message of their own, between nodes; else none
  Atoms ep;           // the others
  DimOf own;          // the dim on which the ranks of an atom hold their shares of the rows before they leave
  bool cuts = false;  // rows are cut over tp first
  bool fuses = false;
};

struct FamilySpec {
  // Tokens between blocks: the same on all tp ranks, or cut over tp.
  enum class Between { whole, cut };
  // What a rank gates: all tokens of its data rank; a tp-th part of them; copies: those of all its esp peers, where the
  // copies that tp ranks have of a token count as distinct ones. Tokens that are cut between blocks are gated in parts.
  enum class AtGate { all, part, copies };
  // Rows behind the gate are cut over tp: not at all; until they are back; until they have arrived.
  enum class Cuts { nothing, sent, joined };
  // The exchange over ep and the gather over esp go in one message: never; where schedule.fuse asks; unless it forbids.
  enum class Fuses { never, if_asked, usually };

  std::string_view name;  // in schedule.moe
  std::string_view help;
  Between between = Between::whole;
  AtGate at_gate = AtGate::all;
  Cuts cuts = Cuts::nothing;
  Fuses fuses = Fuses::never;
  bool esp_is_tp = false;                                // runs at no other layouts
  std::vector<Legs> (*way_out)(const Leaving& from);     // of rows, to where their experts are; back by the transposes
  Schedule (*rewrite)(const Schedule& model) = nullptr;  // afterwards, of a forward list
  int preference = 100;  // of families that should take the same time, auto takes the one with the least

  bool copies() const { return at_gate == AtGate::copies; }
  bool cut_between() const { return between == Between::cut; }
  bool cuts_rows() const { return cuts == Cuts::sent; }      // or tokens with their routes (schedule.slice)
  bool cuts_slots() const { return cuts != Cuts::nothing; }  // a padded buffer has a multiple of tp of them
  bool can_fuse() const { return fuses != Fuses::never; }

  // Of the tokens of a data rank, how many one rank gates.
  int64_t gated(int64_t tokens, int64_t tp, int64_t esp) const;
  // The atoms that the tokens of a gate are split over.
  Atoms gate_atoms(const Mesh& mesh) const;
};

// Ways out of rows that go to experts whole, which their esp ranks have alike; and of rows of which each esp rank has a
// share: these are gathered over esp, in one message with the exchange where asked.
std::vector<Legs> exchanged_and_entered(const Leaving& from);
std::vector<Legs> gathered(const Leaving& from);

// What a family asks of a layout.
struct FamilyLayout {
  const FamilySpec& family;
  int64_t tp = 1, esp = 1, node = 0;  // node: ranks of one
  Dispatch dispatch = Dispatch::direct;
  bool slots = false;     // of padded buffers
  bool cuts_rows = true;  // behind the gate, where the family cuts: rows, and not tokens
  bool fuses = false;
};

// Why it does not run so, in the words of a config: "schedule.moe = "ted" needs mesh.esp = mesh.tp, .."; empty: it
// does.
std::string esp_refusal(const FamilyLayout& layout);
std::string slots_refusal(const FamilyLayout& layout);
std::string dispatch_refusal(const FamilyLayout& layout);
std::string slice_refusal(const FamilyLayout& layout);

}  // namespace plait
