#include "schedule/op.h"

#include <algorithm>
#include <map>
#include <set>

namespace plait {
namespace {

const std::map<std::pair<Hold, Hold>, MoveKind> kLegal = {
    {{Hold::I, Hold::R}, MoveKind::enter},    {{Hold::P, Hold::I}, MoveKind::leave},
    {{Hold::S, Hold::R}, MoveKind::gather},   {{Hold::P, Hold::S}, MoveKind::scatter},
    {{Hold::I, Hold::S}, MoveKind::slice},    {{Hold::S, Hold::I}, MoveKind::join},
    {{Hold::S, Hold::S}, MoveKind::exchange}, {{Hold::P, Hold::R}, MoveKind::sum},
    {{Hold::R, Hold::S}, MoveKind::part},     {{Hold::S, Hold::P}, MoveKind::pad},
};

}  // namespace

std::string_view name(MoveKind kind) {
  constexpr std::string_view names[] = {"enter", "leave",    "gather", "scatter", "slice",
                                        "join",  "exchange", "sum",    "part",    "pad"};
  return names[static_cast<int>(kind)];
}

const MoveKind* find_kind(Hold from, Hold to) {
  auto it = kLegal.find({from, to});
  return it == kLegal.end() ? nullptr : &it->second;
}

const MoveKind* find_kind(const Leg& leg) {
  return leg.from == leg.to ? nullptr : find_kind(leg.from.hold, leg.to.hold);
}

Collective collective(MoveKind kind) {
  switch (kind) {
    case MoveKind::leave:
    case MoveKind::sum: return Collective::all_reduce;
    case MoveKind::gather:
    case MoveKind::join: return Collective::all_gather;
    case MoveKind::scatter: return Collective::reduce_scatter;
    case MoveKind::exchange: return Collective::all_to_all;
    case MoveKind::enter:
    case MoveKind::slice:
    case MoveKind::part:
    case MoveKind::pad: return Collective::none;
  }
  return Collective::none;
}

std::vector<MoveKind> kinds(const Legs& legs) {
  std::set<MoveKind> all;
  for (const Leg& leg : legs)
    if (const MoveKind* kind = find_kind(leg)) all.insert(*kind);
  return {all.begin(), all.end()};
}

std::string title(const Legs& legs) {
  std::vector<std::string_view> all;
  for (MoveKind kind : kinds(legs)) all.push_back(name(kind));
  std::sort(all.begin(), all.end());
  std::string text;
  for (std::string_view kind : all) text += (text.empty() ? "" : "+") + std::string(kind);
  return text.empty() ? "move" : text;
}

Collective collective(const Legs& legs) {
  std::set<Collective> all;
  for (MoveKind kind : kinds(legs))
    if (collective(kind) != Collective::none) all.insert(collective(kind));
  if (all.empty()) return Collective::none;
  return all.size() == 1 ? *all.begin() : Collective::all_to_all;
}

Legs wire_legs(const Legs& legs) {
  Legs wire;
  for (const Leg& leg : legs)
    if (const MoveKind* kind = find_kind(leg); kind && collective(*kind) != Collective::none) wire.push_back(leg);
  return wire;
}

Legs transpose(const Legs& legs) {
  Legs back;
  for (const Leg& leg : legs)
    back.push_back({leg.atom, {dual(leg.to.hold), leg.to.dim}, {dual(leg.from.hold), leg.from.dim}});
  return back;
}

}  // namespace plait
