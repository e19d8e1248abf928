// What a move costs on the wire, from its types alone: the bytes that one rank sends by ring or pairwise algorithms.
#pragma once
#include "schedule/schedule.h"

namespace plait {

// Bytes of an element.
struct Item {
  int real = 4, integer = 8, full = 4;
  static constexpr Item all(int bytes) { return {bytes, bytes, bytes}; }
  int of(Dtype dtype) const { return dtype == Dtype::real ? real : dtype == Dtype::full ? full : integer; }
};

struct WireCost {
  Collective collective = Collective::none;
  int ranks = 1;     // size of the group
  double bytes = 0;  // sent by one rank: m (n-1)/n for gather, scatter, exchange, twice that for leave and sum;
                     // m = the larger local side. A jagged dim counts its expected size.
};

WireCost wire_cost(const Schedule& schedule, const Types& types, const Step& step, Item item);

std::vector<Atom> wire_atoms(const Legs& legs);

}  // namespace plait
