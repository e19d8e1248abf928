#include "machine/machine.h"

#include <algorithm>

namespace plait {
namespace {

// All collectives at one price; an all_reduce is two rounds.
Level level(std::string name, int ranks, MessageCost cost) {
  Level all{.name = std::move(name), .ranks = ranks, .hand_over = 20e-6};
  all.cost.fill(cost);
  all.cost[static_cast<size_t>(Collective::none)] = {};
  all.cost[static_cast<size_t>(Collective::all_reduce)].alpha *= 2;
  return all;
}

bool inside_blocks(const Mesh& mesh, Atom atom, int block) {
  const int reach = (mesh.size(atom) - 1) * mesh.stride(atom);
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    if (mesh.digit(rank, atom) == 0 && rank / block != (rank + reach) / block) return false;
  return true;
}

}  // namespace

double MessageCost::seconds(double bytes) const {
  if (points.empty()) return alpha + beta * bytes;
  const auto above = std::ranges::lower_bound(points, bytes, {}, &MessagePoint::bytes);
  if (above == points.begin()) return above->seconds;
  if (above == points.end()) return points.back().seconds * bytes / points.back().bytes;
  const MessagePoint &low = *(above - 1), &high = *above;
  return low.seconds + (high.seconds - low.seconds) * (bytes - low.bytes) / (high.bytes - low.bytes);
}

Machine default_machine(int ranks_per_node) {
  return {.name = "a laptop",
          .flops = 40e9,
          .memory_bytes = 8e9,
          .start = 1e-6,
          .levels = {level("node", ranks_per_node, {.alpha = 5e-6, .beta = 1 / 4e9}),
                     level("network", 1 << 30, {.alpha = 50e-6, .beta = 1 / 1e9})}};
}

Digits digits_of(const Mesh& mesh, std::span<const Atom> atoms) {
  std::vector<Atom> sorted(atoms.begin(), atoms.end());
  std::ranges::sort(sorted);
  Digits digits;
  for (Atom atom : sorted) {
    const Digit next{mesh.size(atom), mesh.stride(atom)};
    if (next.size == 1) continue;
    if (!digits.empty() && digits.back().size * digits.back().stride == next.stride)
      digits.back().size *= next.size;
    else
      digits.push_back(next);
  }
  return digits;
}

const MessageCost* find_cost(const Machine& machine, const Digits& digits, Collective collective) {
  for (const GroupCost& group : machine.groups)
    if (group.digits == digits && group.of(collective).known()) return &group.of(collective);
  return nullptr;
}

int level_of(const Machine& machine, const Mesh& mesh, Atom atom) {
  const int last = static_cast<int>(machine.levels.size()) - 1;
  for (int l = 0; l < last; ++l)
    if (inside_blocks(mesh, atom, machine.levels[l].ranks)) return l;
  return last;
}

int level_of(const Machine& machine, const Mesh& mesh, std::span<const Atom> atoms) {
  int slowest = -1;
  for (Atom atom : atoms) slowest = std::max(slowest, level_of(machine, mesh, atom));
  return slowest;
}

}  // namespace plait
