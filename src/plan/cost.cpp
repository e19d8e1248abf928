#include "plan/cost.h"

#include <algorithm>

#include "schedule/wire_bytes.h"

namespace plait {
namespace {

double elements(const Mesh& mesh, const Type& type) { return static_cast<double>(local_elements(mesh, type)); }

double product_flops(const Mesh& mesh, const Type& a, const Type& b) {
  double n = 2 * elements(mesh, a);
  for (const Dim& dim : b.dims)
    if (!a.has(dim.name)) n *= static_cast<double>(local_size(mesh, dim));
  return n;
}

// `products` products of a causal square: half of 2 S^2 A each.
double attention_flops(const Mesh& mesh, const Type& q, double products) {
  return products * elements(mesh, q) * static_cast<double>(local_size(mesh, *q.find("S")));
}

double flops(const Mesh& mesh, const Types& types, const Step& step) {
  if (as<Einsum>(step.op)) return product_flops(mesh, types[step.in[0]], types[step.in[1]]);
  if (as<Attention>(step.op)) return attention_flops(mesh, types[step.in[0]], 2);
  if (as<AttentionGrad>(step.op)) return attention_flops(mesh, types[step.in[0]], 5);
  return 0;
}

bool only_renames(const Op& op) {
  if (const Move* move = as<Move>(op))
    return std::ranges::all_of(kinds(move->legs), [](MoveKind kind) {
      return kind == MoveKind::enter || kind == MoveKind::slice || kind == MoveKind::part;
    });
  return as<Split>(op) || as<Unflatten>(op) || as<Flatten>(op) || as<Unpack>(op);
}

double memory_bytes(const Mesh& mesh, const Types& types, const Step& step, Item item) {
  if (only_renames(step.op)) return 0;
  double bytes = 0;
  const auto touch = [&](ValueId v) { bytes += elements(mesh, types[v]) * item.of(types[v].dtype); };
  for (ValueId v : step.out) touch(v);
  if (as<Embed>(step.op)) return 2 * bytes;  // of the table only the rows of these ids
  for (ValueId v : step.in) touch(v);
  return bytes;
}

// The bytes that one rank sends on each level.
std::vector<double> bytes_by_level(const Machine& machine, const Mesh& mesh, const Legs& legs, const WireCost& wire) {
  std::vector<double> bytes(machine.levels.size(), 0);
  std::vector<Atom> atoms = wire_atoms(legs);
  if (wire.collective != Collective::all_to_all) {
    bytes[level_of(machine, mesh, atoms)] = wire.bytes;
    return bytes;
  }
  std::ranges::sort(atoms);
  double nearer = 1;  // ranks of the group that differ from this one in faster atoms only
  for (Atom atom : atoms) {
    bytes[level_of(machine, mesh, atom)] += wire.bytes / (wire.ranks - 1) * (mesh.size(atom) - 1) * nearer;
    nearer *= mesh.size(atom);
  }
  return bytes;
}

StepCost message(const Machine& machine, const Mesh& mesh, const Legs& legs, const WireCost& wire) {
  StepCost cost{.lane = 1 + level_of(machine, mesh, wire_atoms(legs)),
                .wire_bytes = wire.bytes,
                .ranks = wire.ranks,
                .level_bytes = bytes_by_level(machine, mesh, legs, wire)};
  for (size_t l = 0; l < machine.levels.size(); ++l) {
    const MessageCost& price = machine.levels[l].of(wire.collective);
    if (cost.level_bytes[l] > 0) cost.seconds += price.alpha + price.beta * cost.level_bytes[l];
  }
  return cost;
}

}  // namespace

std::vector<StepCost> step_costs(const Schedule& schedule, const Types& types, const Machine& machine) {
  const Item item{.real = schedule.precision == Precision::mixed ? 2 : 4};
  std::vector<StepCost> costs;
  for (const Step& step : schedule.steps) {
    const WireCost wire = wire_cost(schedule, types, step, item);
    if (wire.ranks > 1) {
      costs.push_back(message(machine, schedule.mesh, std::get<Move>(step.op).legs, wire));
      continue;
    }
    StepCost cost{.flops = flops(schedule.mesh, types, step),
                  .memory_bytes = memory_bytes(schedule.mesh, types, step, item)};
    if (!only_renames(step.op))
      cost.seconds = machine.start + std::max(cost.flops / machine.flops, cost.memory_bytes / machine.memory_bytes);
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace plait
