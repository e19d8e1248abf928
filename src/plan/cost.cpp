#include "plan/cost.h"

#include <algorithm>

#include "plan/products.h"
#include "plan/scratch.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

// What the steps of one list have in common.
struct Pricing {
  const Schedule& schedule;
  const Types& types;
  const Machine& machine;
  LoadProfile load;
  Item item{.real = schedule.precision == Precision::mixed ? 2 : 4};

  const Mesh& mesh() const { return schedule.mesh; }
  const Type& type(ValueId v) const { return types[v]; }

  // How much more of a value the busiest rank has: rows that stand at their experts.
  double crowd(const Type& type) const {
    const Dim* experts = type.jagged_index() < 0 ? nullptr : type.find("E");
    return experts && !experts->stack.empty() ? load.busiest : 1;
  }
  double elements(const Type& type) const {
    return static_cast<double>(local_elements(schedule.mesh, type)) * crowd(type);
  }
  double bytes(ValueId v) const { return elements(types[v]) * item.of(types[v].dtype); }
};

bool only_renames(const Op& op) {
  if (const Move* move = as<Move>(op))
    return std::ranges::all_of(kinds(move->legs), [](MoveKind kind) {
      return kind == MoveKind::enter || kind == MoveKind::slice || kind == MoveKind::part;
    });
  return traits_of(op).cost.streams == 0;
}

double memory_bytes(const Pricing& p, const Step& step) {
  if (only_renames(step.op)) return 0;
  double bytes = 0;
  for (ValueId v : step.out) bytes += p.bytes(v);
  if (traits_of(step.op).cost.reads == MemoryRead::as_it_writes) return 2 * bytes;
  for (ValueId v : step.in) bytes += p.bytes(v);
  return bytes;
}

// Tokens, or routes of tokens.
double tokens(const Mesh& mesh, const Type& type) {
  double n = type.has("T") ? 1 : 0;
  for (const Dim& dim : type.dims)
    if (dim.name == "T" || dim.name == "K") n *= static_cast<double>(local_size(mesh, dim));
  return n;
}

double stream_bytes(const Pricing& p, const Step& step, double memory_bytes) {
  const Cost& cost = traits_of(step.op).cost;
  const double most = std::max(tokens(p.mesh(), p.type(step.in[0])), tokens(p.mesh(), p.type(step.out[0])));
  return cost.streams * memory_bytes + cost.bytes_per_token * most;
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

double travel_seconds(const Machine& machine, const Mesh& mesh, const Legs& legs, const StepCost& cost) {
  const Collective kind = collective(legs);
  const std::vector<Atom> atoms = wire_atoms(legs);
  if (const MessageCost* price = find_cost(machine, digits_of(mesh, atoms), kind))
    return price->seconds(cost.wire_bytes);
  double seconds = 0;
  for (size_t l = 0; l < machine.levels.size(); ++l)
    if (cost.level_bytes[l] > 0) seconds += machine.levels[l].of(kind).seconds(cost.level_bytes[l]);
  return seconds;
}

// Bytes of the parts that a rank packs or unpacks.
double copied_bytes(const Pricing& p, const Step& step) {
  std::vector<int64_t> item;
  for (const Type& type : p.types) item.push_back(p.item.of(type.dtype));
  const RowCounts rows(p.mesh(), 0, nullptr);
  return static_cast<double>(scratch_bytes({p.mesh(), 0, step, p.types, item, rows}));
}

// How much more the busiest rank has of what a step reads or makes.
double busiest(const Pricing& p, const Step& step) {
  double crowd = 1;
  for (ValueId v : step.out) crowd = std::max(crowd, p.crowd(p.type(v)));
  for (ValueId v : step.in) crowd = std::max(crowd, p.crowd(p.type(v)));
  return crowd;
}

StepCost message(const Pricing& p, const Step& step, WireCost wire) {
  const Legs& legs = std::get<Move>(step.op).legs;
  const double crowd = busiest(p, step);
  wire.bytes *= crowd;
  StepCost cost{.lane = 1 + level_of(p.machine, p.mesh(), wire_atoms(legs)),
                .wire_bytes = wire.bytes,
                .copied_bytes = copied_bytes(p, step) * crowd,
                .ranks = wire.ranks,
                .level_bytes = bytes_by_level(p.machine, p.mesh(), legs, wire)};
  cost.seconds = p.machine.levels[static_cast<size_t>(cost.lane - 1)].meet +
                 travel_seconds(p.machine, p.mesh(), legs, cost) +
                 2 * cost.copied_bytes / p.machine.memory_bytes;  // read, written
  return cost;
}

StepCost computation(const Pricing& p, const Step& step) {
  StepCost cost{.flops = traits_of(step.op).cost.flops({p.mesh(), p.types, step}),
                .memory_bytes = memory_bytes(p, step)};
  if (only_renames(step.op)) return cost;
  const Cost& traits = traits_of(step.op).cost;
  cost.flops *= busiest(p, step);
  const double rate = as<Einsum>(step.op) ? product_rate(p.machine, product_size(p.mesh(), step, p.types))
                                          : p.machine.flops * traits.pace;
  cost.seconds +=
      p.machine.start + std::max(cost.flops / rate, stream_bytes(p, step, cost.memory_bytes) / p.machine.memory_bytes);
  return cost;
}

}  // namespace

std::vector<StepCost> step_costs(const Schedule& schedule, const Types& types, const Machine& machine,
                                 const LoadProfile& load) {
  const Pricing pricing{schedule, types, machine, load};
  std::vector<StepCost> costs;
  for (const Step& step : schedule.steps) {
    const WireCost wire = wire_cost(schedule, types, step, pricing.item);
    costs.push_back(wire.ranks > 1 ? message(pricing, step, wire) : computation(pricing, step));
  }
  return costs;
}

}  // namespace plait
