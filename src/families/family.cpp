#include "families/family.h"

#include <fmt/format.h>

namespace plait {

int64_t FamilySpec::gated(int64_t tokens, int64_t tp, int64_t esp) const {
  switch (at_gate) {
    case AtGate::all: return tokens;
    case AtGate::part: return tokens / tp;
    case AtGate::copies: return tokens * esp;
  }
  return tokens;
}

Atoms FamilySpec::gate_atoms(const Mesh& mesh) const {
  switch (at_gate) {
    case AtGate::all: return mesh.axis(Axis::dp);
    case AtGate::part: return mesh.atoms();
    case AtGate::copies: break;
  }
  const Atoms edp = mesh.axis(Axis::edp);
  return edp + mesh.axis(Axis::ep);
}

namespace {

std::vector<Legs> exchanged(const Leaving& from) {
  std::vector<Legs> way;
  if (!from.far.empty()) way.push_back(exchange_legs(from.far, from.own, "E"));
  way.push_back(exchange_legs(from.ep, from.own, "E"));
  return way;
}

}  // namespace

std::vector<Legs> exchanged_and_entered(const Leaving& from) {
  std::vector<Legs> way = exchanged(from);
  way.push_back(enter_legs(from.esp));
  return way;
}

std::vector<Legs> gathered(const Leaving& from) {
  std::vector<Legs> way = exchanged(from);
  const Legs gather = gather_legs(from.esp, from.own);
  if (from.fuses)
    way.back().insert(way.back().end(), gather.begin(), gather.end());
  else
    way.push_back(gather);
  return way;
}

std::string esp_refusal(const FamilyLayout& l) {
  if (!l.family.esp_is_tp || l.esp == l.tp) return "";
  return fmt::format("schedule.moe = \"{}\" needs mesh.esp = mesh.tp, but mesh.esp = {} and mesh.tp = {}",
                     l.family.name, l.esp, l.tp);
}

// Slots and the gather over esp share a stack.
std::string slots_refusal(const FamilyLayout& l) {
  if (!l.family.cuts_rows() || !l.slots || l.fuses || l.tp <= l.esp) return "";
  return fmt::format(
      "schedule.fuse = \"no\" with schedule.moe = \"{}\" and moe.capacity needs mesh.tp <= mesh.esp, but mesh.tp = {} "
      "and mesh.esp = {}",
      l.family.name, l.tp, l.esp);
}

std::string dispatch_refusal(const FamilyLayout& l) {
  if (l.dispatch == Dispatch::direct) return "";
  const std::string moe = fmt::format("schedule.moe = \"{}\"", l.family.name);
  if (l.family.cuts == FamilySpec::Cuts::joined) return moe + " would join its slices on every level";
  if (l.dispatch == Dispatch::levels) {
    if (!l.family.cuts_rows() || !l.slots || l.tp <= l.node) return "";
    return fmt::format("{} with moe.capacity needs mesh.tp <= mesh.node, but mesh.tp = {} and mesh.node = {}", moe,
                       l.tp, l.node);
  }
  return l.family.copies() ? moe + " sends copies of tokens as distinct ones" : "";
}

std::string slice_refusal(const FamilyLayout& l) {
  if (l.dispatch != Dispatch::node || !l.family.cuts_rows() || !l.cuts_rows) return "";
  return fmt::format("schedule.moe = \"{}\" slices rows of experts: set schedule.slice = \"tokens\"", l.family.name);
}

}  // namespace plait
