#include "schedule/wire_bytes.h"

#include <algorithm>

namespace plait {

std::vector<Atom> wire_atoms(const Legs& legs) {
  std::vector<Atom> atoms;
  for (const Leg& leg : wire_legs(legs)) atoms.push_back(leg.atom);
  return atoms;
}

WireCost wire_cost(const Schedule& schedule, const Types& types, const Step& step, Item item) {
  const Move* move = as<Move>(step.op);
  if (!move || collective(move->legs) == Collective::none) return {};
  WireCost cost{.collective = collective(move->legs), .ranks = schedule.mesh.count(wire_atoms(move->legs))};
  for (size_t i = 0; i < step.out.size(); ++i) {
    const int64_t larger =
        std::max(local_elements(schedule.mesh, types[step.in[i]]), local_elements(schedule.mesh, types[step.out[i]]));
    cost.bytes += static_cast<double>(larger) * item.of(types[step.in[i]].dtype) * (cost.ranks - 1) / cost.ranks;
  }
  if (cost.collective == Collective::all_reduce) cost.bytes *= 2;
  return cost;
}

}  // namespace plait
